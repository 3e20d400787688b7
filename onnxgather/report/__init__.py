"""A report for people and for build servers: on the terminal, as JUnit XML, as an HTML page."""

from onnxgather.report.junit import junit
from onnxgather.report.page import html
from onnxgather.report.table import render

__all__ = ["html", "junit", "render"]
