"""A report for people and for build servers: on the terminal, as JUnit XML, Markdown, a page."""

from onnxgather.report.junit import junit
from onnxgather.report.markdown import markdown
from onnxgather.report.page import html
from onnxgather.report.paths import without_paths
from onnxgather.report.plain import as_lines

__all__ = ["as_lines", "html", "junit", "markdown", "without_paths"]
