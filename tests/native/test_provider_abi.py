"""The numbers and structures of ONNX Runtime's API that the provider is written with:
each is used in a real runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest
from folders import HELPERS, ROOT
from observed_library import (
    functions_declared,
    functions_given,
    observed,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(which("cc") is None, reason="the library is compiled by cc"),
]

NOT_ASKED = {"factory_vendor_id", "no_allocator", "release_allocator"}
"""What ONNX Runtime asks only of a provider with memory of its own, or of Windows."""

PROGRAM = """
import ctypes, gc, json
import numpy as np
import onnxruntime as ort
from test_provider_bodies import loop_model
from test_provider_claims import through
from observed_library import *
from provider_models import *

library = sys.argv[1]
kept = ctypes.CDLL(library)  # else its notes are lost when ONNX Runtime unloads it
ort.register_execution_provider_library(GATHERS, library)
devices = [each for each in ort.get_ep_devices() if each.ep_name == GATHERS]

def opened_here(model, **settings):
    options = session_options(threads=2)
    options.add_provider_for_devices(devices, settings)
    return session_of(model, options)

def run_here():
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    ids = np.array([0, 9])
    shapes = ([4, 3], None, None)
    model = one_gather("Gather", data, ids, shapes=shapes)
    run_on(opened_here(model, out_of_range="clamp", report="1"), data, ids)
    run_on(opened_here(loop_model(), out_of_range="zero"), data, np.array([0, 9, 1]))
    run_on(opened_here(through(["Slice"])), data)
    large = np.arange(700 * 300, dtype=np.float32).reshape(700, 300)
    many = np.arange(700 * 290).reshape(700, 290) % 300
    by_elements = one_gather("GatherElements", large, many, attributes={"axis": 1})
    run_on(opened_here(by_elements), large, many)
    try:
        run_on(opened_here(model), data, ids)
    except Exception as error:
        print(said(error))
    try:
        opened_here(model, out_of_range="wrap")
    except Exception as error:
        pass

run_here()
gc.collect()
del devices
ort.unregister_execution_provider_library(GATHERS)
print(json.dumps([
    sorted(functions_called(library)),
    sorted(functions_called(library, "called_of_provider")),
    sorted(functions_entered(library)),
]))
"""


def test_every_function_is_called_and_every_member_is_used(tmp_path: Path) -> None:
    library = observed(tmp_path)
    tests = ROOT / "tests" / "native"
    paths = [str(path) for path in (tests, HELPERS, ROOT / "scripts", ROOT)]
    code = f"import sys; sys.path[:0] = {paths}\n{PROGRAM}"
    command = [sys.executable, "-W", "ignore", "-c", code, library]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    sentence, *_, last = ended.stdout.splitlines()
    assert sentence == "Gather 'g': IndicesTensor[1] must be in [-4, 4), got 9"
    called, of_provider, entered = json.loads(last)

    header = "onnxruntime_provider_abi.h"
    declared = functions_declared(header)
    assert declared - {*called} == set()
    assert {*called} - declared <= functions_declared("onnxruntime_abi.h")
    assert {*of_provider} == functions_declared(header, "ORT_EP_FUNCTION")
    assert len(declared) == 21
    assert len(of_provider) == 16

    given = functions_given("provider.c")
    assert given - {*entered} == NOT_ASKED
    assert {"CreateEpFactories", "ReleaseEpFactory"} <= {*entered}
    assert len(given) == 16
