"""The exported corpus runs without this package and keeps every bit."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import unittest
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from agreement import same
from command_line import call
from corpus_cases import corpus
from messages import message_of
from msgspec import structs
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.loader import load_model_tests
from rings import by_ring, one_quick_in

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, NodeCase, case_beside
from onnxgather.checking.corpus import export, random_cases
from onnxgather.checking.corpus.export import answer_folder, is_export
from onnxgather.checking.corpus.wpt import why_not_wpt
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.datatypes import numpy_type
from onnxgather.core.errors import LONGEST_WORD, OnnxGatherError, shortened
from onnxgather.core.options import FORMATS, FormatName
from onnxgather.core.programs.program import read_program

STEP = by_ring(16, 4)


def cases() -> tuple[Case, ...]:
    """Return the cases that are exported: a part of the corpus."""
    return corpus()[::STEP]


def few() -> tuple[Case, ...]:
    """Return some cases of every sort."""
    return corpus()[::150]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the cases in each format."""
    folder = tmp_path_factory.mktemp("exports")
    for name in FORMATS:
        export(cases(), name, folder / name)
    return folder


def index(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "index.json").read_text("utf-8"))


def why_left_out(case: Case, format: FormatName) -> str | None:
    """Return why a format cannot hold a case; None where it can."""
    if format == "dxdispatch" and isinstance(case, NodeCase):
        return "is an ONNX node that no descriptor says"
    if format == "wpt":
        return why_not_wpt(case)
    return None


def exported_cases(format: FormatName) -> list[Case]:
    """Return the cases that an export has: also those beside cases that must be
    refused."""
    chosen = [case for case in cases() if why_left_out(case, format) is None]
    beside = {
        valid.name: valid for case in chosen if (valid := case_beside(case)) is not None
    }
    return [*chosen, *beside.values()]


@pytest.mark.parametrize("name", one_quick_in(9, FORMATS))
def test_the_index_names_every_case_once(exports: Path, name: FormatName) -> None:
    found = index(exports / name)
    entries = {entry["name"]: entry for entry in found["cases"]}
    left_out = {entry["name"]: entry["why"] for entry in found["left_out"]}
    assert found["made_by"].startswith("onnxgather corpus export ")
    assert found["format"] == name
    assert len(entries) + len(left_out) == len(found["cases"]) + len(found["left_out"])
    reasons = {case.name: why_left_out(case, name) for case in cases()}
    assert left_out == {case: why for case, why in reasons.items() if why is not None}
    assert (name in ("dxdispatch", "wpt")) == (left_out != {})
    for case in exported_cases(name):
        entry = entries.pop(case.name)
        path = exports / name / entry.pop("file")
        assert path.exists()
        answer = path.name if name == "onnx" else case.name
        refused = isinstance(case.expected(), str)
        expected = {
            "name": case.name,
            "policy": case.out_of_range,
            "operator": case.operator,
            "data_type": case.data_type,
            "index_type": case.index_type,
            "expected": "refused" if refused else "output",
        }
        if name != "wpt":
            expected["answer"] = answer
        beside = case_beside(case)
        if beside is not None:
            expected["beside"] = beside.name
        assert entry == expected
    assert entries == {}


def test_a_folder_whose_index_is_nested_too_deeply_is_no_export(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_bytes(b'{"a":' * 100_000)
    assert not is_export(str(tmp_path))


def test_cases_that_must_be_refused_are_apart_from_backend_tests(
    exports: Path,
) -> None:
    for kind, wanted in (("cases", True), ("refused", False)):
        folders = [*(exports / "onnx" / kind).iterdir()]
        assert len(folders) > 1
        for folder in folders:
            assert (folder / "model.onnx").exists()
            files = {path.name for path in (folder / "test_data_set_0").iterdir()}
            assert {"input_0.pb", "input_1.pb"} == files - {"output_0.pb"}
            assert ("output_0.pb" in files) == wanted, folder


def test_file_names_fit_every_file_system(exports: Path) -> None:
    paths = [str(path.relative_to(exports)) for path in exports.rglob("*")]
    assert len({path.casefold() for path in paths}) == len(paths)
    assert all(
        re.fullmatch(r"[A-Za-z0-9_./-]+", path.replace(os.sep, "/")) for path in paths
    )
    assert max(map(len, paths)) < 120


class _Prepared(BackendRep):
    """A model on ONNX Runtime's CPU provider."""

    def __init__(self, model: onnx.ModelProto) -> None:
        runtime: Any = onnxruntime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        names = [value.name for value in self._session.get_inputs()]
        return tuple(self._session.run(None, dict(zip(names, inputs, strict=True))))


class _Runtime(Backend):
    """ONNX Runtime as ONNX's backend tests want it."""

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", **_: Any
    ) -> BackendRep:
        assert device == "CPU"
        return _Prepared(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


NOT_GIVEN = ("STRING", "BFLOAT16", "COMPLEX64", "COMPLEX128")
"""The types of data that ONNX Runtime does not run by its Python interface alone.

Its Gather loses texts, it lacks complex numbers, and it takes no arrays of BFLOAT16.
"""


def run_by_onnx(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[unittest.TestResult, int]:
    """Run exported tests with ONNX's own loader and runner, by its tolerance and by
    bytes.

    Returns the result and how many outputs were compared.
    """
    compared = 0

    def load(kind: str) -> list[Any]:
        return load_model_tests(str(folder), "cases") if kind == "simple" else []

    module: Any = importlib.import_module("onnx.backend.test.runner")
    monkeypatch.setattr(module, "load_model_tests", load)

    class Exactly(module.Runner):
        """ONNX's runner, which also compares bytes."""

        @classmethod
        def assert_similar_outputs(cls, *args: Any, **kwargs: Any) -> None:
            nonlocal compared
            module.Runner.assert_similar_outputs(*args, **kwargs)
            expected, found = (args + tuple(kwargs.values()))[:2]
            for one, other in zip(expected, found, strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                assert one.tobytes() == other.tobytes()
                compared += 1

    tests = Exactly(_Runtime).exclude("_cuda$")
    for data_type in NOT_GIVEN:
        tests.exclude(f"_{data_type.lower()}_")
    suite = tests.test_suite
    result = unittest.TestResult()
    suite.run(result)
    return result, compared


def test_onnx_runs_every_exported_test(
    exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = index(exports / "onnx")["cases"]
    types = [row["data_type"] for row in rows if row["expected"] == "output"]
    count = sum(data_type not in NOT_GIVEN for data_type in types)
    assert count > 1300 // STEP
    result, compared = run_by_onnx(exports / "onnx", monkeypatch)
    assert [str(test) + why for test, why in [*result.failures, *result.errors]] == []
    left_out = len(types) - count
    # Each is skipped on CUDA.
    assert (compared, len(result.skipped)) == (count, len(types) + left_out)


def test_a_wrong_bit_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(case for case in corpus() if case.name == "gather/extremes/float32")
    export([case], "onnx", tmp_path)
    [path] = tmp_path.rglob("output_0.pb")
    expected = onnx.numpy_helper.to_array(
        onnx.TensorProto.FromString(path.read_bytes())
    ).copy()
    expected[expected == 0] *= -1
    path.write_bytes(onnx.numpy_helper.from_array(expected).SerializeToString())
    result, _ = run_by_onnx(tmp_path, monkeypatch)
    assert len(result.failures) == 1  # -0.0 for 0.0, which no tolerance sees


def test_models_pass_the_checker(exports: Path) -> None:
    checker: Any = onnx.checker
    # The checker refuses what ONNX forbids.
    forbidden = {
        answer_folder(case.name, "onnx")
        for case in cases()
        if isinstance(case, NodeCase) and case.node.rule
    }
    paths = [
        path
        for path in sorted((exports / "onnx").rglob("model.onnx"))
        if path.parent.name not in forbidden
    ]
    for path in paths[::10]:
        checker.check_model(str(path), full_check=True)


def test_programs_read_back_equal(exports: Path) -> None:
    by_name = {case.name: case for case in exported_cases("dxdispatch")}

    def zeros(desc: og.Descriptor, *_: Array) -> Array:
        return np.zeros(
            desc.output_tensor.array_shape, desc.output_tensor.data_type.numpy
        )

    entries, longer = index(exports / "dxdispatch")["cases"], 0
    for entry in entries:
        path = exports / "dxdispatch" / entry["file"]
        case = by_name[entry["name"]]
        [found] = read_program(str(path)).dispatched(zeros)
        assert isinstance(case, DescriptorCase)
        tensor, data = case.descriptor.input_tensor, case.data
        if not case.in_range and tensor.element_count > data.size:
            # Such an index may lead behind the elements, which a tensor with strides
            # has too.
            tensor = structs.replace(tensor, strides=tensor.element_strides)
            data = np.zeros(tensor.array_shape, data.dtype)
            data[: case.data.size] = case.data.ravel()
            longer += 1
        assert found.descriptor == structs.replace(case.descriptor, input_tensor=tensor)
        assert same(found.data, data)
        assert same(found.indices, case.indices)
        first = path.read_text("utf-8").splitlines()[0]
        assert first == f"// {case.name}, out_of_range={case.out_of_range}"
    assert len(entries) == len(by_name)
    assert longer > 0


NODES_BESIDE = {
    f"beside/{operator.lower()}/{data_type}": {
        "operator": operator,
        "attributes": {attribute: 0},
        "output_shape": output_shape,
    }
    for operator, attribute, output_shape in [
        ("Gather", "axis", [3]),
        ("GatherElements", "axis", [3]),
        ("GatherND", "batch_dims", [3, 1]),
    ]
    for data_type in ("float32", "int64", "float64")
}
"""The valid nodes beside forbidden nodes. A runtime of descriptors alone refuses them,
so that its refusals prove nothing."""


def test_lines_read_back_equal(exports: Path) -> None:
    def array(value: dict[str, Any]) -> Array:
        if value["type"] == "string":
            return np.array(value["texts"], object).reshape(value["shape"])
        content = bytes.fromhex(value["hex"])
        dtype = numpy_type(value["type"]).newbyteorder("<")
        return np.frombuffer(content, dtype).reshape(value["shape"])

    lines = (exports / "json" / "cases.jsonl").read_text("utf-8").splitlines()
    for text, case in zip(lines, exported_cases("json"), strict=True):
        line = json.loads(text)
        assert (line.pop("name"), line.pop("out_of_range")) == (
            case.name,
            case.out_of_range,
        )
        if isinstance(case, NodeCase):
            assert line.pop("node") == {
                "operator": case.node.operator,
                "attributes": dict(case.node.attributes),
                "output_shape": [*case.node.output_shape],
            }
        elif case.name in NODES_BESIDE:
            assert line.pop("node") == NODES_BESIDE[case.name]
        else:
            assert og.from_dict(line.pop("descriptor")) == case.descriptor
        assert same(array(line.pop("data")), case.data)
        assert same(array(line.pop("indices")), case.indices)
        expected, found = case.expected(), line.pop("expected")
        if isinstance(expected, str):
            assert found == {"refused": expected}
        else:
            assert same(array(found.pop("output")), expected)
            assert not found
        assert not line


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnx", "json"])
def test_the_readme_runs_its_export(tmp_path: Path, name: FormatName) -> None:
    exported = export(few(), name, tmp_path)
    assert exported.beside > 0
    readme = (tmp_path / "README.md").read_text("utf-8")
    assert f"\n{exported.written} cases of " in readme
    assert f"Valid cases of this kind: {exported.beside}, named beside/" in readme
    [code] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    if name == "json":
        printed = ran.stdout.splitlines()
        assert len(printed) == exported.written + exported.beside > 5
        assert printed[: exported.written] == [
            f"{case.name} {case.data.shape} "
            f"{['refused' if isinstance(case.expected(), str) else 'output']}"
            for case in few()
        ]
        return
    rows = index(tmp_path)["cases"]
    folder = tmp_path / "answers"
    assert len([*folder.iterdir()]) == len(rows) + 1  # runtime.json
    result = call("judge", str(tmp_path), str(folder))
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert f"\nCPUExecutionProvider: {exported.written} cases, " in result.stdout


def test_an_export_says_what_it_leaves_out(tmp_path: Path) -> None:
    chosen = [
        case
        for case in corpus()
        if case.name.startswith(("forbidden", "gather/policy"))
    ]
    why = "is an ONNX node that no descriptor says"
    exported = export(chosen, "dxdispatch", tmp_path / "dxdispatch")
    assert (exported.written, exported.beside) == (6, 0)
    assert dict(exported.left_out) == {why: len(chosen) - 6}
    readme = (tmp_path / "dxdispatch" / "README.md").read_text("utf-8")
    assert f"\nLeft out: {len(chosen) - 6}, as each {why}.\n" in readme
    for name in ("onnx", "json"):
        exported = export(chosen, name, tmp_path / name)
        assert (exported.written, exported.left_out) == (len(chosen), {})
        # One allowed node of each operator.
        assert exported.beside == 3


@pytest.mark.parametrize("name", one_quick_in(9, FORMATS))
def test_random_cases_can_be_exported(tmp_path: Path, name: FormatName) -> None:
    exported = export(random_cases(40, 3), name, tmp_path)
    assert exported.written + exported.left_out.total() == 40


def refusal(cases: Iterable[Case], name: Any, folder: Path) -> str:
    """Return why an export is refused."""
    return message_of(OnnxGatherError, export, cases, name, folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_an_export_is_the_same_every_time(tmp_path: Path) -> None:
    for name in FORMATS:
        export(few(), name, tmp_path / "one" / name)
        export(iter(few()), name, str(tmp_path / "other" / name))
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_an_export_replaces_an_earlier_one_and_leaves_nothing_of_it(
    tmp_path: Path,
) -> None:
    for earlier in FORMATS:
        for name in FORMATS:
            folder = tmp_path / f"{earlier}-{name}"
            folder.mkdir()
            export(few(), earlier, folder)
            export(few()[:2], name, folder)
            export(few()[:2], name, tmp_path / name)
            assert contents(folder) == contents(tmp_path / name)
            assert {path.name for path in folder.iterdir()} <= {
                *("cases", "refused", "cases.jsonl", "README.md", "index.json"),
                "SHA256SUMS",
            }


def test_an_export_that_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    export(few(), "onnx", tmp_path)
    before = contents(tmp_path)

    def broken() -> Iterator[Case]:
        yield few()[0]
        raise OnnxGatherError("no more")

    for name in FORMATS:
        assert refusal(broken(), name, tmp_path) == "no more"
        assert contents(tmp_path) == before
        assert len(list(tmp_path.iterdir())) == 5


class _Moves:
    """os.replace that fails at some of the moves of an export, counted from 1."""

    def __init__(self, *failing: int) -> None:
        self.failing, self.count, self.replace = failing, 0, os.replace

    def __call__(self, source: Path, target: Path) -> None:
        if not str(source).endswith(".partial"):  # a file written whole
            self.count += 1
            if self.count in self.failing:
                raise OSError(28, "No space left on device")
        self.replace(source, target)


@pytest.mark.slow
def test_an_export_that_cannot_be_moved_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for earlier in FORMATS:
        for name in FORMATS:
            folder = tmp_path / f"{earlier}-{name}"
            export(few(), earlier, folder)
            before = contents(folder)
            count = len([*folder.iterdir()])
            # The new export has no case that must be refused.
            held = [case for case in few() if why_left_out(case, name) is None][:2]
            assert not any(case.must_refuse for case in held)
            move_count = count + 4
            for failing in range(1, move_count + 1):
                monkeypatch.setattr(os, "replace", moves := _Moves(failing))
                said = refusal(held, name, folder)
                monkeypatch.undo()
                assert said == f"{folder}: no space left on device"
                assert moves.count >= failing
                assert contents(folder) == before
                assert len(list(folder.iterdir())) == count
            monkeypatch.setattr(os, "replace", moves := _Moves())
            export(held, name, folder)
            monkeypatch.undo()
            assert moves.count == move_count


def test_an_earlier_export_that_cannot_be_moved_back_is_kept_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(few(), "json", tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr(os, "replace", _Moves(3, 4))
    said = refusal(few()[:2], "json", tmp_path)
    monkeypatch.undo()
    (aside,) = tmp_path.glob(".onnxgather.*.partial")
    assert (
        said
        == f"{tmp_path}: the earlier export is in {aside}, as it cannot be moved back:"
        " no space left on device"
    )
    here = {
        path: text
        for path, text in contents(tmp_path).items()
        if aside.name not in str(path)
    }
    assert {**here, **contents(aside)} == before


def test_what_an_interrupted_export_left_does_not_stop_the_next_one(
    tmp_path: Path,
) -> None:
    (tmp_path / ".onnxgather.1.partial").mkdir()
    assert export(few(), "json", tmp_path).written == len(few())


RULE = "the folder must be empty or an earlier export"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["notes.txt"], "notes.txt"),
        (["cases/mine.txt"], "cases"),
        (["README.md", "index.json"], "README.md"),
        (["index.json"], "index.json"),
    ],
)
def test_a_folder_with_something_else_is_refused(
    tmp_path: Path, files: list[str], found: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"made_by": ["somebody else"]}', "utf-8")
    before = contents(tmp_path)
    said = refusal(few(), "json", tmp_path)
    assert said == f"{tmp_path}: {RULE}, got '{found}' in it"
    assert contents(tmp_path) == before


def test_a_file_beside_an_earlier_export_is_refused(tmp_path: Path) -> None:
    export(few(), "json", tmp_path)
    (tmp_path / "notes.txt").touch()
    said = refusal(few(), "json", tmp_path)
    assert said == f"{tmp_path}: {RULE}, got 'notes.txt' in it"


@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / below
    said = refusal(few(), "json", folder)
    assert said == f"{folder}: a file stands where the folder should be"


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    said = refusal(few(), "json", tmp_path / ("x" * 300))
    path = shortened(f"{tmp_path / ('x' * 300)}:", LONGEST_WORD)
    assert said == f"{path} file name too long"


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    said = refusal(few(), "xml", tmp_path)
    assert said == "format must be one of onnx, dxdispatch, json, wpt, got 'xml'"


@pytest.mark.parametrize("name", ["../up", "a//b", "Upper", "a b", "", "/a", "a/", "é"])
def test_a_case_whose_name_is_no_file_name_is_refused(
    tmp_path: Path, name: str
) -> None:
    case = few()[0]
    said = refusal([replace(case, name=name)], "json", tmp_path)
    rule = (
        "a case's name must be of a-z, 0-9 and -, with / between its parts, to be"
        " exported"
    )
    assert said == f"{rule}, got {name!r}"


def test_two_cases_of_one_name_are_refused(tmp_path: Path) -> None:
    case = few()[0]
    again = replace(case, name="gather-float64/int64/forward")
    assert again.name.replace("-", "/") == case.name
    said = refusal([case, again], "onnx", tmp_path)
    rule = "the files of a case must be its own"
    assert said == f"{rule}, got 'gather-float64/int64/forward' again"
    assert not any(tmp_path.iterdir())
