"""Hosts of our own that speak the protocol of DirectML.dll's, and do what a test says."""

from __future__ import annotations

import sys
from pathlib import Path

# `start` is run once, `action` for each request.
_HOST = """
import struct, sys, time

def frame(content):
    sys.stdout.buffer.write(struct.pack("<Q", len(content)) + content)
    sys.stdout.buffer.flush()

def text(content):
    return struct.pack("<Q", len(content)) + content

HELLO = b"OGDM" + struct.pack("<IIIII", 1, 0, 0, 0x6400, 1)
HELLO += text(b"1.15.4.0") + text(b"llvmpipe") + text(b"10.0")
{start}
while head := sys.stdin.buffer.read(8):
    request = sys.stdin.buffer.read(struct.unpack("<Q", head)[0])
    {action}
"""
_DONE = 'frame(struct.pack("<III", 0, 0, {flags}) + text({output}))'

OUTPUT = 'struct.pack("<8f", *range(8))'
START = "frame(HELLO)"
NO_DEVICE = "frame(b'OGDM' + struct.pack('<IIIII', 1, 2, 0x8007007E, 0, 0) + text(b'') * 3)"
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


def done(output: str = OUTPUT, flags: int = 0) -> str:
    """Return the action of a good answer."""
    return _DONE.format(output=output, flags=flags)


def failed(stage: int, hresult: int, flags: int = 0) -> str:
    """Return the action of an answer that a call failed."""
    return f'frame(struct.pack("<III", {stage}, {hresult}, {flags}) + text(b""))'
