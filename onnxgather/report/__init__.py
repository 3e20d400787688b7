"""A report for people and for build servers: on the terminal, as JUnit XML, Markdown, a page."""

from onnxgather.report.junit import junit
from onnxgather.report.markdown import markdown
from onnxgather.report.page import html
from onnxgather.report.paths import without_paths
from onnxgather.report.plain import render

__all__ = ["html", "junit", "markdown", "render", "without_paths"]
