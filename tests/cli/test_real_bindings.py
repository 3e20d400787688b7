"""Programs in place and their refusals, and `run --provider directml-dll` with a
stand-in host."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from command_line import (
    DESC,
    call,
    error_of,
    outcome,
    output_of,
    program,
    read_json,
    succeed,
    write_json,
    write_text,
)
from fake_directml import NO_DEVICE, START, done, failed, fake_folder
from messages import message_of
from small_programs import gather, shown, small_program

import onnxgather as og
from onnxgather.core.execution import session

X, I, Y = [11.0, 12.0, 13.0, 14.0], (3, 1, 3, 0), [0.0] * 4  # noqa: E741
stand_in = pytest.mark.skipif(os.name == "nt", reason="the stand-in host is a script")

TOLD = (
    "p.json: $.commands[0].bindings.OutputTensor must share no byte with InputTensor,"
    " as Microsoft's BindInputs page allows it only to operators that run in place, not"
    " gathers, got bytes 0 to 15 of resource 'x', where InputTensor has 0 to 15"
)
REFUSED = f"{TOLD}; use two resources, or run it with --provider directml-dll"


def written(resources: dict[str, Any], *commands: dict[str, Any]) -> str:
    """Write a program and return its path."""
    write_text("p.json", small_program(resources, *commands))
    return "p.json"


def in_place() -> str:
    """Write a program of one resource as input and output."""
    return written({"x": X, "i": I}, gather("x", "i", "x", 4, 4), shown("x"))


def host(
    folder: Path, monkeypatch: pytest.MonkeyPatch, action: str, start: str = START
) -> None:
    """Let the stand-in be the host that the program finds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    (folder / "cache/onnxgather/directml").mkdir(parents=True)
    fake_folder(folder / "cache/onnxgather/directml", action, start)


class TestInPlace:
    @pytest.mark.parametrize(
        "arguments",
        [
            *("run", "run --provider directml", "convert", "convert --whole"),
            *("explain", "repro -o d"),
        ],
    )
    def test_commands_that_compute_refuse_it(self, arguments: str) -> None:
        assert error_of(f"{arguments} {in_place()}") == REFUSED
        assert os.listdir() == ["p.json"]

    def test_check_finds_it_and_checks_the_other_programs(self) -> None:
        program("a.json")
        result = call(f"check {in_place()} a.json --json")
        report = json.loads(result.stdout)
        assert (result.exit_code, result.stderr) == (1, "")
        assert [case["name"] for case in report["cases"]] == [
            "a.json: $.commands[0] (gather)"
        ]
        assert report["invalid"] == [
            {"file": "p.json", "reason": REFUSED.removeprefix("p.json: ")}
        ]
        code, table, _ = outcome("check p.json")
        assert code == 1
        assert f"INVALID {REFUSED}" in " ".join(table.split())

    def test_check_counts_a_file_with_two_inputs_in_place_once(self) -> None:
        data = gather("x", "x", "x", 4, 4, IndicesTensor={"DataType": "INT32"})
        path = written({"x": X}, data, shown("x"))
        code, table, _ = outcome(f"check {path}")
        assert (code, table.count("INVALID")) == (1, 2)
        assert table.split("\n")[-6:] == [
            "cpu: 0 cases",
            "files: 1 invalid",
            "",
            "1 finding",
            "0 cases on 1 lane: 1 invalid file.",
            "",
        ]

    def test_show_shows_the_gather(self) -> None:
        out = output_of(f"show {in_place()}")
        assert out.startswith("p.json: $.dispatchables.g0\n")


@stand_in
class TestRun:
    def test_the_host_gets_each_resource_once_with_the_offsets_of_its_tensors(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept = tmp_path / "requests"
        keep = f"open({str(kept)!r}, 'ab').write(request + b'\\n')"
        host(tmp_path, monkeypatch, f"{keep}; {done('bytes(4) + request[-28:]')}")
        uint = {"DataType": "UINT32"}
        there = {"name": "i", "elementOffset": 4}
        both = gather("i", there, "y", 4, 4, InputTensor=uint, OutputTensor=uint)
        y = (9, 9, 9, 9, 5, 6, 7, 8)
        path = written({"i": (1, 2, 3, 4, 3, 2, 1, 0), "y": y}, both, shown("y"))
        assert (
            output_of(f"run {path} --provider directml-dll")
            == "Resource 'y': 0, 9, 9, 9, 5, 6, 7, 8\n"
        )
        header, _, blobs = kept.read_bytes().partition(b"\n")
        request = json.loads(header)
        assert request["buffers"] == [32, 32]
        assert request["bindings"] == [[0, 0], [0, 16], [1, 0]]
        assert (
            blobs == np.array([1, 2, 3, 4, 3, 2, 1, 0, *y], np.uint32).tobytes() + b"\n"
        )

    def test_in_place_it_runs_with_a_warning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host(tmp_path, monkeypatch, done("struct.pack('<4f', 1, 2, 3, 4)"))
        assert outcome(f"run {in_place()} --provider directml-dll") == (
            0,
            "Resource 'x': 1, 2, 3, 4\n",
            f"{TOLD}; DirectML.dll may read what it has written\n",
        )

    def test_indices_out_of_range_are_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host(tmp_path, monkeypatch, done("struct.pack('<4f', 1, 2, 3, 4)"))
        path = written(
            {"x": X, "i": (3, 9, 4, 0), "y": Y}, gather("x", "i", "y", 4, 4), shown("y")
        )
        assert outcome(f"run {path} --provider directml-dll") == (
            0,
            "Resource 'y': 1, 2, 3, 4\n",
            (
                "p.json: $.commands[0]: indices out of range: 2 of 4, first"
                " IndicesTensor[1] = 9; the output is the same under clamp\n"
            ),
        )

    @pytest.mark.parametrize(
        ("action", "told"),
        [
            (
                failed("CreateOperator", 0x80070057),
                (
                    "DirectML.dll 1.15.4.0 must run the dispatch, but CreateOperator"
                    " gave 0x80070057"
                ),
            ),
            (
                failed("dispatch", 0x80070057, lost=True),
                (
                    "DirectML.dll 1.15.4.0 must run the dispatch, but dispatch gave"
                    " 0x80070057"
                ),
            ),
            (
                done("bytes(16)", touched=True),
                (
                    "DirectML.dll 1.15.4.0 must run the dispatch, but bytes beside"
                    " OutputTensor were written"
                ),
            ),
            (
                done("bytes(15)"),
                (
                    "the host answered what no host answers: 15 bytes of OutputTensor,"
                    " not 16"
                ),
            ),
            ("sys.exit(3)", "the host ended with exit code 3"),
        ],
    )
    def test_a_dispatch_that_fails_is_exit_code_3(
        self, action: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host(tmp_path, monkeypatch, action)
        path = written(
            {"x": X, "i": I, "y": Y}, gather("x", "i", "y", 4, 4), shown("y")
        )
        assert (
            error_of(f"run {path} --provider directml-dll", code=3)
            == f"p.json: $.commands[0]: {told}"
        )

    def test_a_host_that_does_not_start_is_exit_code_3(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host(tmp_path, monkeypatch, done(), NO_DEVICE)
        assert (
            error_of(f"run {in_place()} --provider directml-dll", code=3)
            == "DirectML.dll cannot run: DMLCreateDevice1 gave 0x8007007E"
        )

    def test_where_it_is_not_set_up_that_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
        assert (
            error_of(f"run {in_place()} --provider directml-dll", code=3)
            == "DirectML.dll is not set up; run scripts/directml/setup.sh"
        )


class TestUsage:
    @pytest.mark.parametrize(
        ("options", "more"),
        [
            ("--out-of-range clamp", ""),
            ("--target cpu", ""),
            ("--provider-option", " directml-dll:a=b"),
        ],
    )
    def test_directml_dll_takes_no_other_policy_no_target_and_no_option(
        self, options: str, more: str
    ) -> None:
        words = f"run {in_place()} --provider directml-dll {options}{more}"
        assert error_of(words) == (
            f"{options} must not come with --provider directml-dll,"
            " as DirectML.dll runs no model, and has its own rule for an index out"
            " of range"
        )

    def test_an_option_of_a_provider_reaches_its_session(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = Mock(wraps=session.Session)
        monkeypatch.setattr(session, "Session", made)
        file = written(
            {"x": X, "i": I, "y": Y}, gather("x", "i", "y", 4, 4), shown("y")
        )
        options = "--provider-option cpu:a=b:c"
        assert succeed(f"run {file} {options}") == output_of(f"run {file}")
        given = [call.kwargs.get("provider_options") for call in made.call_args_list]
        assert given == [{"a": "b:c"}, None]

    def test_an_option_of_another_provider_is_refused(self) -> None:
        assert (
            error_of(f"run {in_place()} --provider-option gpu:a=b")
            == "the NAME of --provider-option must be one of cpu, got 'gpu'"
        )

    def test_elsewhere_the_name_is_refused_with_the_command_that_takes_it(self) -> None:
        told = (
            "provider must be one of cpu, directml, openvino, cuda, tensorrt, webgpu,"
            " qnn, coreml, onnxgather, web-wasm, web-webgpu, web-webnn,"
            " webnn, or ONNX Runtime's full name"
            " of one, which ends in ExecutionProvider, got 'directml-dll', which runs"
            " programs: onnxgather run FILE --provider directml-dll"
        )
        data, indices = np.zeros((4, 3), np.float32), np.zeros((1, 2), np.uint32)
        for use in (
            lambda: og.run(DESC, data, indices, provider="directml-dll"),
            lambda: og.Session(DESC, "directml-dll"),
        ):
            assert message_of(og.ProviderError, use) == told

    def test_run_names_it_among_the_providers_and_suggests_it(self) -> None:
        assert error_of(f"run {in_place()} --provider directml_dll") == (
            "Invalid value for '--provider': provider must be one of"
            " directml-dll, cpu, directml, openvino, cuda, tensorrt, webgpu, qnn,"
            " coreml, onnxgather, web-wasm, web-webgpu, web-webnn,"
            " webnn, or ONNX Runtime's full name of"
            " one, which ends in ExecutionProvider, got 'directml_dll'; did you mean"
            ' "directml-dll"?'
        )


WILD = "indices out of range: 2 of 4, first"
KEEPS = "for the other output: --out-of-range directml\n"
UNKNOWN = "so it is not known what an index out of range changes\n"
CLAMPED = (
    "1 of 4 output elements differ, first OutputTensor[1]: 11 under clamp, 14 under"
    " directml"
)
LIKE_DIRECTML = (
    "1 of 4 output elements differ, first OutputTensor[1]: 14 under directml, 11 under"
    " clamp"
)
CHANGED = CLAMPED.replace("OutputTensor[1]", "OutputTensor[0]")
NINE = "indices out of range: 1 of 4, first IndicesTensor[0] = 9"
UINT = {"DataType": "UINT32"}


def no_inputs(options: str, inputs: str) -> str:
    """Return what convert says of a whole program whose data is all in the file."""
    if "--whole" not in options:
        return ""
    rule = "p.json: the model has no inputs, as the program contains all data"
    return f"{rule}; to give it inputs, add {inputs}\n"


class TestConvert:
    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ("", CLAMPED),
            (
                "--out-of-range zero",
                (
                    "2 of 4 output elements differ, first OutputTensor[0]: 0 under"
                    " zero, 14 under directml"
                ),
            ),
            (
                "--out-of-range error",
                "OutputTensor[0] is an error, 14 under directml",
            ),
            ("--out-of-range directml", LIKE_DIRECTML),
            ("--whole", CLAMPED),
            ("--whole --out-of-range directml", LIKE_DIRECTML),
        ],
    )
    def test_it_tells_where_an_index_out_of_range_does_something_else_than_in_directml(
        self, options: str, told: str
    ) -> None:
        # Counted from the end, -9 is far past it, and the offset wraps to the last
        # element.
        indices = {"initialValuesDataType": "INT32", "initialValues": [9, -9, 1, 0]}
        wild = gather("x", "i", "y", 4, 4, IndicesTensor={"DataType": "INT32"})
        path = written({"x": X, "i": indices, "y": Y}, wild)
        place = "p.json: $.commands[0] (g0)"
        other = "clamp" if told == LIKE_DIRECTML else "directml"
        lines = f"{place}: {WILD} IndicesTensor[0] = 9; {told}"
        lines += f"; for the other output: --out-of-range {other}\n"
        lines += no_inputs(options, "--input x --input i")
        assert outcome(f"convert {path} {options}") == (0, "p.json -> p.onnx\n", lines)

    def test_an_index_that_an_earlier_dispatch_writes_is_told_too(self) -> None:
        first = gather("i", "j", "t", 4, 4, InputTensor=UINT, OutputTensor=UINT)
        t = {"initialValuesDataType": "UINT32", "initialValues": [0] * 4}
        program = {"x": X, "i": (0, 9, 9, 9), "j": (0, 0, 1, 2), "t": t, "y": Y}
        path = written(program, first, gather("x", "t", "y", 4, 4))
        told = "IndicesTensor[2] = 9; the output is the same under directml"
        assert outcome(f"convert {path}")[::2] == (
            0,
            f"p.json: $.commands[1] (g1): {WILD} {told}\n",
        )

    def test_nothing_is_told_where_all_are_in_range_or_there_is_no_dispatch(
        self,
    ) -> None:
        path = written({"x": X, "i": I, "y": Y}, gather("x", "i", "y", 4, 4))
        assert output_of(f"convert {path}") == "p.json -> p.onnx\n"
        content = read_json(path)
        write_json(path, content | {"commands": []})
        assert output_of(f"convert {path}") == "p.json -> p.onnx\n"

    def test_what_cannot_run_is_converted_and_told(self) -> None:
        x = {"initialValuesDataType": "FLOAT64", "initialValues": [1, 2]}
        path = written({"x": x, "i": (9, 0, 0, 0), "y": Y}, gather("x", "i", "y", 4, 4))
        assert outcome(f"convert {path}") == (
            0,
            "p.json -> p.onnx\n",
            (
                "p.json: $.resources.x must hold FLOAT32, as InputTensor of"
                f" $.commands[0], got FLOAT64; {UNKNOWN}"
            ),
        )

    @pytest.mark.parametrize(
        ("options", "last", "told"),
        [
            ("", 9, f"{NINE}; the output is the same under directml\n"),
            ("--whole", 9, f"{NINE}; {CHANGED}; {KEEPS}"),
            (
                "--whole --out-of-range error",
                9,
                f"{NINE}; OutputTensor[0] is an error, 14 under directml; {KEEPS}",
            ),
            ("", 3, None),
            ("--whole", 3, f"{CHANGED}; {KEEPS}"),
            ("--whole --out-of-range error", 3, None),
        ],
    )
    def test_in_one_model_it_tells_what_a_clamp_changes_further_down(
        self, options: str, last: int, told: str | None
    ) -> None:
        # DirectML takes -9 to the last element, the clamp to the first, which is an
        # index in turn.
        i = {"initialValuesDataType": "INT32", "initialValues": [-9, 1, 2, 1]}
        more = {
            "InputTensor": UINT,
            "OutputTensor": UINT,
            "IndicesTensor": {"DataType": "INT32"},
        }
        resources = {"x": X, "i": i, "d": (0, 1, 2, last), "t": (0, 0, 0, 0), "y": Y}
        first = gather("d", "i", "t", 4, 4, **more)
        path = written(resources, first, gather("x", "t", "y", 4, 4))
        code, _, err = outcome(f"convert {path} {options}")
        brief = (
            "1 of 4 output elements differ, first OutputTensor[0]: 0 under clamp,"
            f" {last} under directml"
        )
        if "error" in options:
            brief = f"OutputTensor[0] is an error, {last} under directml"
        start = (
            "p.json: $.commands[0] (g0): indices out of range: 1 of 4, first"
            " IndicesTensor[0] = -9"
        )
        lines = f"{start}; {brief}; {KEEPS}"
        if told:
            lines += f"p.json: $.commands[1] (g1): {told}"
        lines += no_inputs(options, "--input d --input i --input x")
        assert (code, err) == (0, lines)

    @pytest.mark.parametrize("value", [1, 9])
    def test_a_large_program_is_neither_run_nor_held_in_memory(
        self, value: int
    ) -> None:
        count = 10**9
        many = {"initialValues": {"valueCount": count, "value": value}}
        i = many | {"initialValuesDataType": "UINT32"}
        path = written({"x": X, "i": i, "y": {**i}}, gather("x", "i", "y", 4, count))
        tracemalloc.start()
        found = outcome(f"convert {path}")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found == (
            0,
            "p.json -> p.onnx\n",
            (
                "p.json: $.resources must take at most 33554432 bytes when it runs,"
                f" with all resources, got 8000000016; {UNKNOWN}"
            ),
        )
        assert peak < 2**27

    def test_few_indices_into_a_large_input_are_looked_at(self) -> None:
        count = 10**7
        x = {"valueCount": count, "value": 1}
        x = {"initialValuesDataType": "FLOAT32", "initialValues": x}
        path = written({"x": x, "i": I, "y": Y}, gather("x", "i", "y", count, 4))
        assert output_of(f"convert {path}") == "p.json -> p.onnx\n"

    def test_where_there_is_no_memory_for_the_indices_the_file_is_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_memory(*_: object) -> None:
            raise MemoryError

        path = written({"x": X, "i": I, "y": Y}, gather("x", "i", "y", 4, 4))
        monkeypatch.setattr(np, "zeros", no_memory)
        code, _, err = outcome(f"convert {path}")
        told = f"p.json: $.resources.i: there is no memory for its 16 bytes; {UNKNOWN}"
        assert (code, err) == (0, told)
