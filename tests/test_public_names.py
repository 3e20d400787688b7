"""The public names: each is defined once, and prints and pickles as onnxgather.NAME."""

from __future__ import annotations

import ast
import enum
import inspect
import multiprocessing
import pickle
import traceback
import typing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SIGNED_DESC as DESC
from folders import MODELS, ROOT
from public_names import CALLED, DEFINED, modules_of_stub

import onnxgather as og

PACKAGE = ROOT / "onnxgather"
NETWORK = MODELS / "networks" / "keywords.onnx"

INTERNAL = {"StoredArray"}
"""The classes in the annotations of public functions that are not public.

A stored array is an array of a file that the commands read.
"""


def decorated() -> Iterator[tuple[str, str]]:
    """Yield the names that `public` decorates, each with its module."""
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for decorator in getattr(node, "decorator_list", ()):
                if isinstance(decorator, ast.Name) and decorator.id == "public":
                    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
                    yield node.name, module


def test_the_loader_reads_the_names_of_the_stub() -> None:
    modules = modules_of_stub()
    assert modules.pop("__version__") == "onnxgather.core.version"
    assert og.__all__ == sorted(modules)
    assert {name: modules[name] for name in DEFINED} == dict(decorated())


@pytest.mark.parametrize("name", DEFINED)
def test_a_function_or_class_prints_as_a_name_of_onnxgather(name: str) -> None:
    value = getattr(og, name)
    assert f"{value.__module__}.{value.__qualname__}" == f"onnxgather.{name}"
    if inspect.isclass(value):
        if not issubclass(value, enum.Enum):  # an enum prints no module
            assert repr(value) == f"<class 'onnxgather.{name}'>"
        # What reads the annotations of a class looks names up in its module.
        typing.get_type_hints(value)
    else:
        assert f"def {name}(" in inspect.getsource(value)


def test_a_traceback_names_the_error_as_users_import_it() -> None:
    with pytest.raises(og.DescriptorError) as caught:
        og.TensorDesc("FLOAT32", [0])
    (line,) = traceback.format_exception_only(caught.value)
    assert line == "onnxgather.DescriptorError: Sizes[0] must be at least 1, got 0\n"


def classes_in(annotation: Any) -> Iterator[type]:
    """Yield the classes of the package in an annotation."""
    for part in typing.get_args(annotation):
        yield from classes_in(part)
    is_class = inspect.isclass(annotation) and not typing.get_args(annotation)
    if is_class and annotation.__module__.startswith("onnxgather"):
        yield annotation


@pytest.mark.parametrize("name", CALLED)
def test_the_types_of_a_public_function_are_public(name: str) -> None:
    value = getattr(og, name)
    function = value.__init__ if inspect.isclass(value) else value
    if not inspect.isfunction(function):  # the fields of a struct are annotated
        function = value
    for annotation in typing.get_type_hints(function).values():
        for found in classes_in(annotation):
            assert found.__name__ in {*og.__all__, *INTERNAL}, f"{name}: {found}"


OTHERS = (
    "gather_elements_1_select_vertically",
    "gather_nd_1_remap_1d",
    "gather_nd1_1_remap_1d",
)
"""Programs of the three other descriptors."""


def records(folder: Path) -> dict[str, Any]:
    """Return an object of each public class that has objects which pickle."""
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    indices = np.array([[2, 7]], np.int64)
    gather = og.audit(NETWORK).gathers[1]
    clamped = og.to_onnx(DESC, "clamp")
    inputs = dict(np.load(NETWORK.with_suffix(".npz")))
    (result,) = og.check(DESC, data, indices)
    refuted = og.certify(DESC, "zero", model=clamped)
    program = og.load(MODELS / "gather_3_swap_columns.json")
    made = [
        DESC,
        *(og.load(MODELS / f"{name}.json").dispatches[0].descriptor for name in OTHERS),
        DESC.input_tensor,
        DESC.input_tensor.data_type,
        DESC.input_tensor.flags,
        og.Gather(DESC, "zero"),
        og.audit(NETWORK),
        gather,
        gather.range,
        gather.range.conditions[0],
        result,
        refuted,
        refuted.counterexample,
        og.explain(DESC, data, indices, (0, 0)),
        og.show(DESC),
        og.extract(NETWORK, inputs, folder)[0],
        og.to_webnn(DESC),
        og.program_to_webnn(program),
        *program.dispatches,
        og.GatherCounts("bert", "clamp", "Gather", "tokens", "rows", 1, 8, 0),
        og.OnnxGatherError("a"),
        og.DescriptorError("b"),
        og.FileFormatError("c"),
        og.IndexOutOfRangeError("d"),
        og.ProviderError("e"),
    ]
    return {type(value).__name__: value for value in made}


UNPICKLED = {"Program", "Session"}
"""A program reads files, and a session holds a model of ONNX Runtime."""


@pytest.mark.slow
def test_objects_of_public_classes_pickle_into_a_new_process(tmp_path: Path) -> None:
    values = records(tmp_path / "gathers")
    classes = {name for name in DEFINED if inspect.isclass(getattr(og, name))}
    assert values.keys() == classes - UNPICKLED
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as pool:
        texts = [*pool.map(repr, values.values())]
        # A function goes by its name.
        assert pool.submit(og.minimum_feature_level, DESC).result() == "3_0"
    assert texts == [*map(repr, values.values())]
    for name in DEFINED:
        content = pickle.dumps(getattr(og, name))
        assert b"onnxgather\x94" in content
        assert pickle.loads(content) is getattr(og, name)
