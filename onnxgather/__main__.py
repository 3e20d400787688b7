"""The commands as `python -m onnxgather`."""

from __future__ import annotations

from onnxgather.cli import main

if __name__ == "__main__":
    main(prog_name="onnxgather")
