"""Reports for people and build servers: text, JUnit XML, Markdown, and an HTML page."""

from onnxgather.checking.report.junit import junit
from onnxgather.checking.report.markdown import markdown
from onnxgather.checking.report.page import html
from onnxgather.checking.report.paths import without_paths
from onnxgather.checking.report.plain import as_lines

__all__ = ["as_lines", "html", "junit", "markdown", "without_paths"]
