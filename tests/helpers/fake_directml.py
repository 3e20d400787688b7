"""Hosts of our own that speak the protocol of DirectML.dll's, and do what a test
says."""

from __future__ import annotations

import sys
from pathlib import Path

# `start` is run once, `action` for each request.
_HOST = """
import json, struct, sys, time

def frame(content):
    sys.stdout.buffer.write(struct.pack("<Q", len(content)) + content)
    sys.stdout.buffer.flush()

def answer(output, **fields):
    frame(json.dumps(fields).encode() + b"\\n" + output)

def greet():
    sys.stdout.buffer.write(b"\\x93gather\\n")
    sys.stdout.buffer.flush()

INFO = dict(version="1.15.4.0", adapter="llvmpipe", feature_level="6_4", wine="10.0")
{start}
while head := sys.stdin.buffer.read(8):
    request = sys.stdin.buffer.read(struct.unpack("<Q", head)[0])
    asked = json.loads(request.partition(b"\\n")[0])
    if not asked:
        answer(b"", **INFO)
        continue
    {action}
"""
_FIELDS = (
    "stage={stage!r}, hresult={hresult}, guards_touched={touched}, device_lost={lost}"
)

OUTPUT = 'struct.pack("<8f", *range(8))'
START = "greet()"
NO_DEVICE = "sys.exit('host: DMLCreateDevice1 gave 0x8007007E')"
"""The start of a host that finds no DirectML.dll."""


def fake(action: str, start: str = START) -> list[str]:
    """Return the command of a host that does something with each request."""
    return [sys.executable, "-c", _HOST.format(action=action, start=start)]


def fake_folder(folder: Path, action: str, start: str = START) -> str:
    """Return a folder in which `find_host` finds such a host."""
    script = folder / "run-host"
    program = _HOST.format(action=action, start=start)
    script.write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
    script.chmod(0o755)
    return str(folder)


def done(output: str = OUTPUT, touched: bool = False) -> str:
    """Return the action of a good answer."""
    fields = _FIELDS.format(stage="done", hresult=0, touched=touched, lost=False)
    return f"answer({output}, {fields})"


def failed(stage: str, hresult: int, lost: bool = False) -> str:
    """Return the action of an answer that a call failed."""
    fields = _FIELDS.format(stage=stage, hresult=hresult, touched=False, lost=lost)
    return f"answer(b'', {fields})"
