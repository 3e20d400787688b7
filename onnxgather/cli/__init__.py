"""The command line; the only package that imports click and prints."""

from __future__ import annotations

from onnxgather.cli import audit, check, corpus, examine, extract, harden, report, translate
from onnxgather.cli.terminal import main

__all__ = [
    "audit",
    "check",
    "corpus",
    "examine",
    "extract",
    "harden",
    "main",
    "report",
    "translate",
]
