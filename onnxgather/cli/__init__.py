"""The command line; the only package that speaks to the terminal."""

from __future__ import annotations

from onnxgather.cli import check, translate
from onnxgather.cli.group import main

__all__ = ["check", "main", "translate"]
