"""Exceptions that a caller's handler of signals raises in the midst of a public call:
each arrives as itself, and leaves nothing half done."""

from __future__ import annotations

import errno
import inspect
import io
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import POSIX
from command_line import SIGNED_DESC as SOLVED
from foreign_exceptions import Interrupted
from mutants import RIGHT
from onnx import parser
from planted_adapter import planted
from public_names import CALLED

import onnxgather as og
from onnxgather.core.errors import pass_foreign

# What is raised between the opening of a file and its `with` leaves the file to the
# collector, whenever that runs.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DESC, *_ = RIGHT["desc"]
DATA, INDICES = RIGHT["data"][0], RIGHT["indices"][0]
PROGRAM = RIGHT["program"][0]
NETWORK = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    g (float[4,N] x, int64[2,2] i) => (float[2,2] y)
    { a = Neg(x) b = Abs(i) y = GatherElements<axis=1>(a, b) }"""
)
FEEDS = {
    "x": np.arange(8, dtype=np.float32).reshape(4, 2),
    "i": np.array([[0, 1], [1, 0]]),
}
ADDED = og.from_onnx("GatherElements", ("FLOAT32", [2, 2]), ("INT64", [2, 2]), axis=1)
ADAPTER = """
def gather(data, indices):
    return np.take_along_axis(data, indices, 1)
"""


@cache
def session_of(source: Any) -> og.Session:
    return og.Session(source)


@cache
def contract() -> Any:
    return og.audit(NETWORK).contract


def added() -> onnx.ModelProto:
    """Return the network with a gather, as `add_to` changes its model."""
    model = onnx.ModelProto()
    model.CopyFrom(NETWORK)
    og.add_to(model, ADDED, input="y", indices="i", output="z")
    return model


def add_provider() -> None:
    """Add the provider to new options, which take it once."""
    og.add_provider(import_module("onnxruntime").SessionOptions())


def extracted(stored: str) -> object:
    """Return what is extracted, and the names of all files in the folder."""
    folder = str(Path(stored).with_name("extracted"))
    return og.extract(stored, FEEDS, folder, force=True), sorted(os.listdir(folder))


def checked(stored: str) -> object:
    """Return the result of an adapter, which a program of its own runs."""
    adapter = planted(Path(stored).parent, ADAPTER)
    return og.check(DESC, DATA, INDICES, adapters={"mine": adapter})


CALLS: dict[str, Callable[[str], object]] = {
    "Gather": lambda _: og.Gather(DESC)(DATA, INDICES),
    "GatherDesc": lambda _: og.from_dict(og.to_dict(SOLVED)),
    "Session": lambda _: og.Session(DESC).run(DATA, INDICES),
    "Session of a file": lambda stored: og.Session(stored).run(FEEDS),
    "Session.run": lambda _: session_of(DESC).run(DATA, INDICES),
    "Session.run of lists": lambda _: session_of(DESC).run(
        DATA.tolist(), INDICES.tolist()
    ),
    "Session.run of a model": lambda stored: session_of(stored).run(FEEDS),
    "TensorDesc": lambda _: og.TensorDesc("FLOAT32", [4, 3], strides=[3, 1]),
    "add_provider": lambda _: add_provider(),
    "add_to": lambda _: added(),
    "audit": lambda _: og.audit(NETWORK),
    "audit of a file": lambda stored: og.audit(stored),
    "audit with inputs": lambda _: og.audit(NETWORK, inputs=FEEDS),
    "audit with levels": lambda _: og.audit(NETWORK, levels=("basic",)),
    "certify": lambda _: og.certify(SOLVED),
    "check": lambda _: og.check(DESC, DATA, INDICES, lanes="cpu"),
    "check with an adapter": checked,
    "check_inputs": lambda _: og.check_inputs(contract(), FEEDS),
    "contract_model": lambda _: og.contract_model(contract(), NETWORK),
    "custom_ops_library": lambda _: og.custom_ops_library(),
    "explain": lambda _: og.explain(DESC, DATA, INDICES, (0, 0)),
    "extract": extracted,
    "from_dict": lambda _: og.from_dict(og.to_dict(DESC)),
    "from_onnx": lambda _: og.from_onnx(
        "Gather", ("FLOAT32", [4, 3]), ("INT64", [4, 2])
    ),
    "functions": lambda _: og.functions([DESC]),
    "harden": lambda _: og.harden(NETWORK),
    "load": lambda _: og.load(PROGRAM).dispatches[0].name,
    "minimum_feature_level": lambda _: og.minimum_feature_level(DESC),
    "program_to_onnx": lambda _: og.program_to_onnx(PROGRAM),
    "program_to_webnn": lambda _: og.program_to_webnn(PROGRAM).to_javascript(),
    "provider_library": lambda _: og.provider_library(),
    "provider_report": lambda _: og.provider_report(),
    "reference": lambda _: og.reference(DESC, DATA, INDICES),
    "reference_onnx": lambda _: og.reference_onnx(
        "GatherElements", DATA, INDICES, axis=1
    ),
    "run": lambda _: og.run(DESC, DATA, INDICES),
    "run of errors": lambda _: og.run(DESC, DATA, INDICES, "error"),
    "show": lambda _: str(og.show(DESC)),
    "to_dict": lambda _: og.to_dict(DESC),
    "to_onnx": lambda _: og.to_onnx(DESC),
    "to_onnx with verify": lambda _: og.to_onnx(DESC, verify=True),
    "to_webnn": lambda _: og.to_webnn(DESC).to_javascript(),
}
"""Public calls by their names; a name stands first in those of several calls."""

TRIES = 25
"""The tries of each call, a thousand in all."""

QUICK = ("Session", "Session.run", "check_inputs", "explain", "run", "to_onnx")
"""The calls of the quick tests."""


@pytest.fixture
def stored(tmp_path: Path) -> str:
    """The file of the network."""
    path = tmp_path / "network.onnx"
    path.write_bytes(NETWORK.SerializeToString())
    return str(path)


def test_each_public_function_is_called() -> None:
    functions = {name for name in CALLED if inspect.isfunction(getattr(og, name))}
    called = {name.split()[0] for name in CALLS}
    assert functions <= called
    assert len(CALLS) * TRIES >= 1000


@pytest.mark.parametrize("name", QUICK)
def test_an_exception_of_the_caller_arrives(name: str, stored: str) -> None:
    interrupted = Interrupted(name, lambda: CALLS[name](stored))
    interrupted.try_moments(5, seed=0)
    assert interrupted.outcomes.faults == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_an_exception_of_the_caller_arrives_from_many_moments(
    name: str, stored: str
) -> None:
    interrupted = Interrupted(name, lambda: CALLS[name](stored))
    interrupted.try_moments(TRIES, seed=1)
    print(f"{name}: {interrupted.outcomes}")
    assert interrupted.outcomes.faults == []
    in_destructors = len(interrupted.outcomes.in_destructors)
    assert interrupted.outcomes.arrived + in_destructors == TRIES


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_an_exception_of_a_timer_arrives(name: str, stored: str) -> None:
    interrupted = Interrupted(name, lambda: CALLS[name](stored))
    interrupted.try_timers(TRIES // 5, seed=2)
    print(f"{name}: {interrupted.outcomes}")
    assert interrupted.outcomes.faults == []


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "no such file"),
        TimeoutError(errno.ETIMEDOUT, "the disk of another machine is slow"),
        OSError("Invalid data stream"),
        io.UnsupportedOperation("seek"),
        ValueError("embedded null byte"),
    ],
    ids=repr,
)
def test_an_error_of_the_system_or_of_a_library_is_caught(error: Exception) -> None:
    pass_foreign(error)


def test_an_error_without_a_number_is_the_callers() -> None:
    foreign = TimeoutError("the caller's own limit")
    with pytest.raises(TimeoutError) as caught:
        pass_foreign(foreign)
    assert caught.value is foreign
