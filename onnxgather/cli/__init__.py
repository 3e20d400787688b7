"""The command line; the only package that imports click and prints."""

from onnxgather.cli.commands import main

__all__ = ["main"]
