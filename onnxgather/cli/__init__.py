"""The command line; the only package that imports click and prints."""

from __future__ import annotations

from onnxgather.cli import audit, check, corpus, examine, harden, report, translate
from onnxgather.cli.terminal import main

__all__ = ["audit", "check", "corpus", "examine", "harden", "main", "report", "translate"]
