"""A report for people and for build servers: on the terminal, as JUnit XML, Markdown, a page."""

from onnxgather.checking.report.junit import junit
from onnxgather.checking.report.markdown import markdown
from onnxgather.checking.report.page import html
from onnxgather.checking.report.paths import without_paths
from onnxgather.checking.report.plain import as_lines

__all__ = ["as_lines", "html", "junit", "markdown", "without_paths"]
