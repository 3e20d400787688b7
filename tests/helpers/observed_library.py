"""The library of the operators and of the provider, compiled so that it notes what is
called."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

from build_hook import load_build_hook
from folders import ROOT
from sanitize import NATIVE

LIBRARY = "onnxgather_operators.so"


def observed(folder: Path) -> str:
    """Compile the library so that it notes which functions it calls and enters."""
    library = str(folder / LIBRARY)
    hook = load_build_hook()
    names = [*hook.libraries_of("linux")[LIBRARY], *hook.SHARED]
    command = ["cc", "-std=c11", "-shared", "-fPIC", "-finstrument-functions"]
    command += ["-include", str(ROOT / "tests" / "native" / "called.h"), "-pthread"]
    sources = [str(NATIVE / name) for name in names]
    subprocess.run([*command, "-o", library, *sources], check=True)
    return library


def functions_called(library: str, table: str = "called") -> set[int]:
    """Return the numbers of the functions of ONNX Runtime that were called.

    Args:
        library: The library, as `observed` compiled it.
        table: The array of the library that notes them.
    """
    room = {"called": 415, "called_of_provider": 42}[table]
    noted = (ctypes.c_char * room).in_dll(ctypes.CDLL(library), table).raw
    return {number for number in range(room) if noted[number]}


def functions_entered(library: str) -> set[str]:
    """Return the names of the library's own functions that were entered."""
    run = subprocess.run(["nm", library], capture_output=True, text=True, check=True)
    rows = re.findall(r"^([0-9a-f]+) (\w) (\w+)$", run.stdout, re.MULTILINE)
    offsets = {name: int(address, 16) for address, _, name in rows}
    names = {int(address, 16): name for address, kind, name in rows if kind in "tTW"}
    loaded = ctypes.CDLL(library)
    noted = (ctypes.c_void_p * 400).in_dll(loaded, "entered")
    start = ctypes.addressof(noted) - offsets["entered"]
    return {names[address - start] for address in noted if address}


def functions_declared(header: str, macro: str = "ORT_FUNCTION") -> set[int]:
    """Return the numbers of the functions that a header declares."""
    text = (NATIVE / header).read_text(encoding="utf-8")
    numbers = re.findall(rf"^{macro}\((\d+),", text, re.MULTILINE)
    return {int(number) for number in numbers}


def functions_given(source: str) -> set[str]:
    """Return the functions that a source gives ONNX Runtime in a structure."""
    text = (NATIVE / source).read_text(encoding="utf-8")
    structures = r"^\s+(?:\w+->base)?\.[A-Z]\w+ = (\w+)[,;]$"
    return {*re.findall(structures, text, re.MULTILINE)}
