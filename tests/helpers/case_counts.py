"""The number of cases that a script takes."""

from __future__ import annotations

import argparse


def counted(text: str) -> int:
    """A number of cases, of which there must be one."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a number from 1 on, got {text}")
    return int(text)
