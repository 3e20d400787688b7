"""`onnxgather check`: lanes, states, exit codes and reports, as a user gets them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnxruntime
import pytest
from command_line import (
    DATA_4X3,
    DESC,
    call,
    changed,
    error_of,
    files,
    invalid,
    outcome,
    output_of,
    program,
    read_bytes,
    read_json,
    read_text,
    succeed,
    write_json,
    write_text,
)
from folders import MODELS
from messages import rows_of
from msgspec.structs import replace
from rings import one_quick_in
from small_programs import gather, shown, small_program
from stub_runtime import environment

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.lanes.python import ModelLane
from onnxgather.checking.results import Report, read_report
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution.elsewhere.worker import NodeElsewhere
from onnxgather.core.execution.runtime import GATHERS

WILD = np.array([[2, 2**32 - 1]], np.uint32)
XYZ = "XyzExecutionProvider"
FOUR_DIFFER = "4 of 8 output elements differ, first OutputTensor[0,1]:"
REFUSAL = f"IndicesTensor[0,1] must be in [0, 3), got {2**32 - 1}"
POSIX = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in interpreter is a shell script"
)


def report(line: str, *arguments: str, code: int = 0) -> Report:
    """Return the report that `check --json` prints."""
    result = call(f"check {line}", *arguments, "--json")
    assert result.exit_code == code, result.output
    return read_report(result.stdout.encode())


def states(
    line: str, *arguments: str, code: int = 0
) -> list[list[tuple[str, str | None]]]:
    """Return state and reason of each case on each lane."""
    cases = report(line, *arguments, code=code).cases
    return [[(found.state, found.reason) for found in case.results] for case in cases]


def change(
    monkeypatch: pytest.MonkeyPatch, changed: Callable[[Case, Answer], Answer]
) -> None:
    """Plant a fault: lanes start as they do, and what they answer then is changed."""
    original, original_start = ModelLane.answer, ModelLane.start
    starting: list[ModelLane] = []

    def start(lane: ModelLane) -> LaneInfo:
        starting.append(lane)
        info = original_start(lane)
        starting.remove(lane)
        return info

    def answer(lane: ModelLane, case: Case) -> Answer:
        right = original(lane, case)
        return right if lane in starting else changed(case, right)

    monkeypatch.setattr(ModelLane, "start", start)
    monkeypatch.setattr(ModelLane, "answer", answer)


def change_all(
    monkeypatch: pytest.MonkeyPatch, answered: Callable[[Case], Answer]
) -> None:
    """Have lanes answer so without asking their workers."""

    def answer(_: ModelLane, case: Case) -> Answer:
        return answered(case)

    monkeypatch.setattr(ModelLane, "answer", answer)


def negative(_: Case, answer: Answer) -> Answer:
    """Return an answer with every sign turned."""
    assert answer.output is not None
    return replace(answer, output=-answer.output)


class TestOutOfRange:
    @pytest.mark.parametrize(
        ("options", "difference"),
        one_quick_in(
            5,
            [
                ("", f"{FOUR_DIFFER} 2 under clamp, 11 under directml"),
                *rows_of(f"""
--out-of-range clamp
{FOUR_DIFFER} 2 under clamp, 11 under directml

--out-of-range zero
{FOUR_DIFFER} 0 under zero, 11 under directml

--out-of-range error
OutputTensor[0,1] is an error, 11 under directml

--out-of-range directml
{FOUR_DIFFER} 11 under directml, 2 under clamp
"""),
            ],
        ),
    )
    def test_the_table_says_what_other_policies_give(
        self, options: str, difference: str
    ) -> None:
        program("in.json")
        program("wild.json", indices=WILD)
        table = output_of(f"check in.json wild.json {options}")
        other = "clamp" if "directml" in options else "directml"
        told = [" ".join(section.split()) for section in table.split("\n\n")[2:-1]]
        assert told == [
            "NOTE wild.json: $.commands[0] (gather): indices out of range: 1 of 2,"
            f" first IndicesTensor[0,1] = 4294967295; {difference}; for the other"
            f" output: --out-of-range {other}"
        ]

    def test_without_a_policy_an_index_out_of_range_is_clamped(self) -> None:
        data = {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5, 6]}
        longer = {"TotalTensorSizeInBytes": 24}
        gathers = [gather("x", i, "y", 2, 2, InputTensor=longer) for i in ("i", "j")]
        resources = {"x": data, "i": (1, 0), "j": (2, 9), "y": [0.0, 0.0]}
        text = small_program(resources, gathers[0], gathers[1], shown("y"))
        write_text("x.json", text)
        # `run` prints DirectML's elements.
        assert succeed("run x.json") == "Resource 'y': 3, 6\n"
        found = report("x.json").cases
        assert [case.out_of_range for case in found] == ["clamp", "clamp"]
        assert [case.results[0].state for case in found] == ["PASS", "PASS"]
        example = found[1].example
        assert example is not None
        assert example.expected is not None
        assert example.expected.array().tolist() == [2, 2]
        zero = report("x.json --out-of-range zero").cases
        assert [case.out_of_range for case in zero] == ["zero", "zero"]

    def test_many_such_cases_are_one_sentence(self) -> None:
        for k in range(3):
            program(f"p/{k}.json", indices=WILD)
        note = output_of("check p --out-of-range clamp").split("\n\n")[-2]
        assert (
            " ".join(note.split())
            == "NOTE 3 cases, such as p/0.json: $.commands[0] (gather): indices out of"
            " range: 1 of 2, first IndicesTensor[0,1] = 4294967295; 4 of 8 output"
            " elements differ, first OutputTensor[0,1]: 2 under clamp, 11 under"
            " directml; for the other output: --out-of-range directml"
        )


class TestHelp:
    def test_help_lists_the_states(self) -> None:
        assert call("check --help").stdout.endswith("""
  States:
    PASS     the data type, shape and bytes of the reference, or both refuse
    DIFF     the output differs; the details say how, and where first
    ERROR    the provider failed, or its worker crashed or hung
    NOT-RUN  the provider is missing, does not start, or did not run a node
    KNOWN    DIFF, ERROR or NOT-RUN, explained in the file of known differences
    FIXED    PASS, although that file says otherwise

  Examples:
    onnxgather check models --lanes cpu,cpu@native
    onnxgather check --corpus -k gather-nd/ --html check.html
""")

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            *rows_of("""
x.json --lane cpu
Invalid value for '--lane': must be NAME=PATH (--lanes takes a NAME alone), got 'cpu'

x.json --plugin =x
Invalid value for '--plugin': must be NAME=LIBRARY, got '=x'

x.json --provider-option cpu=a
Invalid value for '--provider-option': must be NAME:KEY=VALUE, got 'cpu=a'

x.json --provider-option cpu:a=
Invalid value for '--provider-option': must be NAME:KEY=VALUE, got 'cpu:a='

x.json --provider-option gpu:a=b
the lane of an option of a provider must be one of cpu, got 'gpu'

x.json --require xyz
--require must be one of cpu, got 'xyz'

x.json --lanes reference
lanes must name one beside the reference, got none

x.json --lanes cpu,cpu
lanes must differ, got 'cpu' twice

x.json --lane cpu=a --lane cpu=b
Invalid value for '--lane': must differ, got 'cpu' twice

x.json --lane cpu@old=no/python
Invalid value for '--lane': 'no/python': no such file or directory

x.json --lane cpu=no-such-python
Invalid value for '--lane': 'no-such-python': no such file or directory

x.json --plugin MyExecutionProvider=libmy.so
Invalid value for '--plugin': 'libmy.so': no such file or directory

x.json --lanes cpu,openvino=bin/python
Invalid value for '--lanes': must be names (--lane takes NAME=PATH), got
'openvino=bin/python'

x.json --lane openvino=env
Invalid value for '--lane': must be the interpreter of an environment, got its folder
'env'

x.json --lanes ,
Invalid value for '--lanes': must be names with commas, got ','

x.json --lanes gpu
provider must be one of openvino-runtime, opencv, tvm, iree, mnn, tract, onnx-reference,
cpu, directml, openvino, cuda, tensorrt, webgpu, qnn, coreml, onnxgather, web-wasm,
web-webgpu, web-webnn, webnn, or ONNX Runtime's full name of one, which ends in
ExecutionProvider,
got 'gpu'; a lane on a runtime of your own needs --adapter gpu=FILE.py

x.json --junit x.json
x.json must not be written, as it is an input

x.json --junit r --html ./r
r must not be written twice, for --junit and --html
"""),
            ("", "there is nothing to check: give a PATH, --corpus or --random N"),
        ],
    )
    def test_wrong_usage_is_one_sentence(self, arguments: str, sentence: str) -> None:
        program("x.json")
        Path("env").mkdir()
        Path("env/pyvenv.cfg").touch()
        assert error_of(f"check {arguments}") == sentence

    def test_a_package_that_is_not_there_is_one_sentence(self) -> None:
        program("x.json")
        assert (
            error_of("check x.json --plugin ep_none")
            == f"the package 'ep_none' of {sys.executable} must have get_library_path()"
            ' and get_ep_name(), got "ModuleNotFoundError: No module named'
            " 'ep_none'\"; NAME=LIBRARY names a library itself"
        )

    def test_the_folder_of_an_environment_as_a_plugin_is_no_interpreter(self) -> None:
        program("x.json")
        Path("env").mkdir()
        Path("env/pyvenv.cfg").touch()
        code, out, err = outcome("check x.json --plugin MyExecutionProvider=env")
        assert (code, err) == (3, "")
        assert "the plugin library of MyExecutionProvider does not load: " in out


class TestStates:
    def test_the_table_has_a_row_for_each_case_and_a_column_for_each_lane(self) -> None:
        program("a/x.json")
        program("a/b/y.json")
        out = output_of("check a")
        head, lane, _, *rest = out.splitlines()
        assert re.fullmatch(
            r"onnxgather 0\.1\.0, \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, .+ cores?", head
        )
        assert lane.startswith("cpu  CPUExecutionProvider, ")
        assert rest == [
            "                                    cpu",
            "a/x.json: $.commands[0] (gather)    PASS",
            "a/b/y.json: $.commands[0] (gather)  PASS",
            "",
            "cpu: 2 cases, 2 PASS",
        ]

    @pytest.mark.parametrize("columns", one_quick_in(2, ["80", "100"]))
    def test_no_name_of_a_file_is_broken_in_two(
        self, monkeypatch: pytest.MonkeyPatch, columns: str
    ) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        name = f"{'long name ' * 3}{'n' * 20}.json"
        program(name)
        write_text("bad one.json", "{")
        out = outcome("check", name, "bad one.json")[1]
        assert out.count(f"{name}:") == 1
        assert "bad one.json:" in out
        assert "(gather)  PASS" in out

    def test_every_program_of_models_passes(self) -> None:
        out = output_of("check", str(MODELS))
        assert out.splitlines()[-1] == "cpu: 16 cases, 16 PASS"

    def test_every_dispatch_is_a_case(self) -> None:
        dispatch, printing = read_json(program("x.json"))["commands"]
        changed("x.json", commands=[dispatch, printing, dispatch])
        found = report("x.json").cases
        assert [(case.command, case.name) for case in found] == [
            (f"$.commands[{k}]", f"x.json: $.commands[{k}] (gather)") for k in (0, 2)
        ]

    def test_a_difference_is_exit_code_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        program("x.json")
        change(monkeypatch, negative)
        assert states("x.json", code=1) == [
            [
                (
                    "DIFF",
                    (
                        "8 of 8 elements differ, first OutputTensor[0,0]: expected 2.0"
                        " (00 00 00 40), got -2.0 (00 00 00 c0)"
                    ),
                )
            ]
        ]

    def test_a_planted_fault_leaves_the_question_alone_that_a_lane_starts_with(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program("x.json")
        asked: list[tuple[str, AnswerKind]] = []

        def kept(case: Case, answer: Answer) -> Answer:
            asked.append((case.name, answer.kind))
            return answer

        change(monkeypatch, kept)
        assert states("x.json") == [[("PASS", None)]]
        assert asked == [("x.json: $.commands[0] (gather)", AnswerKind.RAN)]

    def test_a_missing_provider_is_not_run(self) -> None:
        runtime: Any = onnxruntime
        # Another test may have registered onnxgather's own provider, but in this
        # process alone.
        listed = [*runtime.get_available_providers()]
        available = ", ".join(name for name in listed if name != GATHERS)
        program("x.json")
        name = "XyzExecutionProvider"
        reason = (
            f"{name} is not available (available: {available}); install an ONNX Runtime"
            f" with {name}, or name its plugin library: --plugin {name}=LIBRARY"
        )
        assert states("x.json --lanes", name, code=3) == [[("NOT-RUN", reason)]]

    @pytest.mark.slow
    def test_not_run_is_no_pass_and_no_failure_unless_required(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program("x.json")
        program("y.json")

        def declined(case: Case, answer: Answer) -> Answer:
            return Answer(AnswerKind.NOT_RUN, "declined") if case.name < "y" else answer

        change(monkeypatch, declined)
        out = output_of("check x.json y.json --lanes cpu,cpu@b")
        assert (
            "\ncpu: 2 cases, 1 PASS, 1 NOT-RUN\ncpu@b: 2 cases, 1 PASS, 1 NOT-RUN\n\nNo"
            " findings\n" in out
        )
        assert outcome("check x.json y.json --require cpu")[0] == 3
        assert outcome("check x.json")[0] == 3

    def test_a_lane_that_does_not_start_is_exit_code_3(self) -> None:
        program("x.json")
        files = "--json=r.json --junit r.xml --html r.html"
        code, out, _ = outcome(f"check x.json --lanes cpu,XyzExecutionProvider {files}")
        assert code == 3
        why = "XyzExecutionProvider is not available"
        assert f"XyzExecutionProvider  did not start: {why}" in out
        lanes = read_report(read_bytes("r.json")).lanes
        assert [str(lane.not_run)[: len(why)] for lane in lanes] == ["None", why]
        error = ElementTree.parse("r.xml").find(".//error")
        assert error is not None
        assert str(error.text).startswith(f"did not start: {why}")
        page = read_text("r.html")
        assert "<title>XyzExecutionProvider did not start ·" in page

    @pytest.mark.slow
    def test_the_worst_exit_code_counts(self) -> None:
        invalid("bad.json", Axis=2)
        program("x.json")
        missing = "--lanes XyzExecutionProvider"
        found = report("x.json bad.json", code=1)
        assert [(one.file, one.reason) for one in found.invalid] == [
            (
                "bad.json",
                (
                    "$.dispatchables.gather.desc: Axis must be less than"
                    " InputTensor.DimensionCount (2), got 2; did you mean Axis 1?"
                ),
            )
        ]
        assert outcome(f"check x.json bad.json {missing}")[0] == 1
        assert outcome(f"check x.json {missing}")[0] == 3
        assert outcome(f"check x.json bad.json none.json {missing}")[0] == 2
        error = "Error: none.json: no such file or directory\n"
        assert outcome("check none.json x.json")[::2] == (2, error)
        assert report("none.json x.json", code=2).unusable == [
            "none.json: no such file or directory"
        ]

    def test_a_folder_of_models_alone_is_named_by_a_pattern(self) -> None:
        program("x.json")
        succeed("convert x.json -o made/below/x.onnx")
        for folder in ("made", "made/"):
            assert outcome(f"check {folder}") == (
                2,
                "",
                (
                    f"Error: {folder}: the folder must have a *.json file, got models"
                    " alone; a pattern names them: 'made/**/*.onnx'\n"
                ),
            )
        succeed("check made/**/*.onnx")

    def test_nothing_to_check_is_a_failure(self) -> None:
        changed(program("x.json"), dispatchables={}, commands=[])
        Path("empty").mkdir()
        assert outcome("check x.json empty") == (
            2,
            "",
            (
                "Error: empty: the folder must have a *.json file, got none\n"
                "Error: x.json: $.dispatchables must hold a gather\n"
            ),
        )


class TestRefusals:
    """With "error", the model must refuse what the reference refuses, and nothing
    else."""

    def test_a_refusal_of_the_lane_and_of_the_reference_passes(self) -> None:
        program("x.json", indices=WILD)
        assert states("x.json --out-of-range error") == [
            [("PASS", f"both refuse: {REFUSAL}")]
        ]

    def test_a_model_that_answers_differs(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program("x.json", indices=WILD)

        def answered(case: Case, answer: Answer) -> Answer:
            assert isinstance(case, DescriptorCase)
            output = og.reference(case.descriptor, case.data, case.indices, "zero")
            return replace(answer, kind=AnswerKind.RAN, reason=None, output=output)

        change(monkeypatch, answered)
        assert states("x.json --out-of-range error", code=1) == [
            [("DIFF", f"must refuse, but returned zeros: {REFUSAL}")]
        ]

    def test_dispatches_behind_a_refusal_are_checked(self) -> None:
        content = read_json(program("x.json", indices=WILD))
        content["resources"]["tame"] = {
            "initialValuesDataType": "UINT32",
            "initialValues": [0, 1],
        }
        wild = content.pop("commands")[0]
        tame = {**wild, "bindings": {**wild["bindings"], "IndicesTensor": "tame"}}
        changed("x.json", **content, commands=[wild, tame])
        assert states("x.json --out-of-range error") == [
            [("PASS", f"both refuse: {REFUSAL}")],
            [("PASS", None)],
        ]


class TestLanes:
    def test_the_target_is_the_one_that_run_takes(self) -> None:
        program("x.json")
        last: list[str] = []
        for target in ([], ["--target", "portable"], ["--target", "cpu"]):
            (case,) = report("x.json", *target).cases
            last.append(case.results[0].nodes[-1])
        assert last == ["ArrayFeatureExtractor", "Gather", "ArrayFeatureExtractor"]

    def test_wrap_puts_each_gather_between_two_multiplications(self) -> None:
        program("x.json")
        (case,) = report("x.json --wrap").cases
        assert case.wrapped
        assert sorted(case.results[0].nodes) == [
            "Cast",
            "Gather",
            "Min",
            "Mul",
            "Mul",
            "Reshape",
        ]

    @pytest.mark.slow
    @POSIX
    def test_lanes_in_other_environments(self, tmp_path: Path) -> None:
        program("x.json")
        wrong = environment(
            tmp_path / "wrong", "def get_available_providers(): return ['None']"
        )
        right = environment(
            tmp_path / "right",
            """
            PROVIDERS = [PLACE := "CPUExecutionProvider"]
            class RunOptions:
                def add_run_config_entry(self, *_): pass
            class InferenceSession(InferenceSession):
                def compute(self, data, indices):
                    return data if data.ndim == 1 else data[:, indices[0].astype(np.int64)]
            """,  # noqa: E501
        )
        found = report(
            *("x.json", "--lanes", "reference,cpu", "--target", "portable"),
            *("--lane", f"cpu@old={right}", "--lane", f"openvino={wrong}"),
            code=3,
        )
        assert [lane.name for lane in found.lanes] == ["cpu", "cpu@old", "openvino"]
        assert [lane.versions["onnxruntime"] for lane in found.lanes[1:]] == [
            "9.9.9",
            "9.9.9",
        ]
        assert [one.state for one in found.cases[0].results] == [
            "PASS",
            "PASS",
            "NOT-RUN",
        ]
        assert (
            found.lanes[2].not_run
            == "OpenVINOExecutionProvider is not available (available: None); install"
            " onnxruntime-openvino; the wheel needs an environment of its own: python3"
            " -m venv ../openvino && ../openvino/bin/pip install onnxruntime-openvino"
            " numpy, then --lane openvino=../openvino/bin/python"
        )

    @pytest.mark.slow
    def test_random_cases_are_those_of_their_seed(self) -> None:
        first = report("--random 5 --seed 7")
        again = report("--random 5 --seed 7")
        other = report("--random 5 --seed 8")
        assert [case.name for case in first.cases] == [
            case.name for case in again.cases
        ]
        assert first.cases == again.cases
        assert first.cases != other.cases
        assert first.counts(0) == {"PASS": 5}

    @pytest.mark.slow
    def test_out_of_range_chooses_cases_of_the_corpus(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        change_all(monkeypatch, lambda _: Answer(AnswerKind.NOT_RUN, "chosen"))
        found = report("--corpus --out-of-range zero", code=3)
        assert {case.out_of_range for case in found.cases} == {"zero"}
        assert {case.in_range for case in found.cases} == {True, False}
        assert 1000 < len(found.cases) < 1300


class TestWriteKnown:
    """The findings of a check as a file of known differences."""

    def test_what_is_written_is_known_in_the_next_check(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        change(monkeypatch, negative)
        asked = f"{program('b.json')} {program('a.json')} --random 1"
        assert call(f"check {asked} --write-known known.json").exit_code == 1
        (entry,) = read_json("known.json")
        reason, version = entry.pop("reason"), onnxruntime.__version__
        assert entry == {
            "provider": "CPUExecutionProvider",
            "versions": f"=={version}",
            "cases": [
                {"name": name, "out_of_range": [policy], "wrapped": False}
                for name, policy in (
                    ("a.json: $.commands[[]0] (gather)", "clamp"),
                    ("b.json: $.commands[[]0] (gather)", "clamp"),
                    ("random/0/0", "directml"),
                )
            ],
            "found": [
                {
                    "kind": "elements",
                    "output": ["4f143cdc7533c1c7", "7ba4ce79a0563954"],
                }
            ],
            "link": f"measured with {version}",
        }
        assert (
            reason == "No reason is written yet; b.json: $.commands[0] (gather): 8 of 8"
            " elements differ, first OutputTensor[0,0]: expected 2.0 (00 00 00 40),"
            " got -2.0 (00 00 00 c0)"
        )
        found = states(f"{asked} --known known.json")
        assert {one[0][0] for one in found} == {"KNOWN"}

    @pytest.mark.slow
    def test_findings_of_different_rules_are_entries_of_their_own(self) -> None:
        asked = "check --corpus -k forbidden/gather-nd --no-known"
        written = "--json=r.json --write-known known.json"
        assert call(f"{asked} {written}").exit_code == 1
        entries = read_json("known.json")
        rules = [
            {name["name"].split("/")[2] for name in one["cases"]} for one in entries
        ]
        assert sorted(map(sorted, rules)) == [
            ["batch-count"],
            ["batch-sizes"],
            ["tuple-length"],
        ]
        reasons = [one["reason"].partition(";")[2].split("/")[2] for one in entries]
        assert [{reason} for reason in reasons] == rules
        assert outcome(asked)[1].count("DIFF     cpu: ") == len(rules)

    @pytest.mark.slow
    def test_what_a_required_lane_did_not_run_is_written_by_the_operator_that_left(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def declined(case: Case, answer: Answer) -> Answer:
            if case.name < "b":
                return answer
            operator = "Cast" if case.name < "d" else "Gather"
            gone = NodeElsewhere("node", operator, "CPUExecutionProvider")
            return Answer(
                AnswerKind.NOT_RUN, "it left", how="elsewhere", elsewhere=gone
            )

        change(monkeypatch, declined)
        asked = f"check {' '.join(program(f'{name}.json') for name in 'abcd')}"
        succeed(f"{asked} --write-known none.json")
        assert read_json("none.json") == []
        asked += " --require cpu"
        assert call(f"{asked} --write-known known.json").exit_code == 3
        entries = read_json("known.json")
        names = [[case["name"][:6] for case in entry["cases"]] for entry in entries]
        assert names == [["b.json", "c.json"], ["d.json"]]
        assert [entry["found"] for entry in entries] == [
            [
                {
                    "kind": "not-run",
                    "not_run": "elsewhere",
                    "elsewhere": {"operator": [operator]},
                }
            ]
            for operator in ("Cast", "Gather")
        ]
        succeed(f"{asked} --known known.json")

    def test_a_known_difference_is_out_of_date_in_the_whole_alone(self) -> None:
        entry: dict[str, Any] = {
            "provider": "CPUExecutionProvider",
            "versions": ">=1",
            "cases": [{}],
            "found": [{"kind": "failed"}],
            "reason": "It fails.",
            "link": "none",
        }
        write_json("known.json", [entry])
        asked = "check --random 2 --lanes cpu --known known.json"
        succeed(f"{asked} --shard 1/2 --json=1.json")
        succeed(f"{asked} --shard 2/2 --json=2.json")
        assert call("report merge 1.json 2.json").exit_code == 1
        assert call(asked).exit_code == 1

    def test_a_required_lane_that_does_not_start_is_no_known_difference(self) -> None:
        asked = f"check {program('x.json')} --lanes {XYZ} --require {XYZ}"
        assert call(f"{asked} --write-known known.json").exit_code == 3
        assert read_json("known.json") == []

    @pytest.mark.slow
    def test_entries_that_a_file_has_stay_with_their_reasons(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        change(monkeypatch, negative)
        program("a.json")
        program("b.json")
        assert call("check b.json --write-known known.json").exit_code == 1
        (entry,) = read_json("known.json")
        mine = {**entry, "reason": "Signs are turned.", "link": "https://example.org/1"}
        write_json("known.json", [mine])
        assert call("check a.json b.json --write-known known.json").exit_code == 1
        first, second = read_json("known.json")
        assert second == mine
        (one,) = first["cases"]
        assert one["name"] == "a.json: $.commands[[]0] (gather)"
        before = read_bytes("known.json")
        succeed("check a.json b.json --write-known known.json")
        assert read_bytes("known.json") == before
        assert sorted(os.listdir()) == ["a.json", "b.json", "known.json"]

    @pytest.mark.parametrize(
        ("file", "sentence"),
        rows_of("""
x.json
x.json: $ must be `array`, got `object`

empty.json
empty.json: $ must be whole JSON, got an empty or cut file

list.json
list.json: $[0] must have provider
"""),
    )
    def test_no_other_file_is_written_over(self, file: str, sentence: str) -> None:
        program("x.json")
        Path("empty.json").touch()
        write_text("list.json", "[{}]")
        before = read_bytes(file)
        assert error_of(f"check --random 1 --write-known {file}") == sentence
        assert read_bytes(file) == before


class TestParts:
    """Some of the cases of a check."""

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run nothing, as the cases that are chosen are enough."""
        change_all(monkeypatch, lambda _: Answer(AnswerKind.NOT_RUN, "chosen"))

    @pytest.mark.slow
    def test_a_text_chooses_cases_by_their_names(self) -> None:
        program("x.json")
        program("y.json")
        names = [
            case.name for case in report("x.json y.json --random 13 -k 1", code=3).cases
        ]
        assert names == ["random/0/1", "random/0/10", "random/0/11", "random/0/12"]
        found = report("x.json y.json --random 3 -k", "y.json: $", code=3)
        assert [case.file for case in found.cases] == ["y.json"]
        assert found.planned == 1

    def test_a_listed_name_is_whole(self) -> None:
        path = program(f"{'a' * 200}/{'b' * 200}/x.json")
        (name,) = output_of("check", path, "--list").splitlines()
        assert name == f"{path}: $.commands[0] (gather)"

    def test_a_text_that_no_name_has_is_an_error(self) -> None:
        program("x.json")
        assert (
            error_of("check x.json --random 3 -k abc") == "no case name contains 'abc'"
        )

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        one_quick_in(
            6,
            [
                (
                    ["--corpus", "-k", "gather/flaot32"],
                    (
                        "no case name contains 'gather/flaot32'; did you mean"
                        ' "gather/float32"?'
                    ),
                ),
                (
                    ["--case", "gather/float32/int64/negativ"],
                    (
                        "no case is named 'gather/float32/int64/negativ'; did you mean "
                        '"gather/float32/int64/negative"?'
                    ),
                ),
                (
                    ["--case", "random/0/3", "--random", "3"],
                    "no case is named 'random/0/3'; did you mean \"random/0/2\"?",
                ),
                (["--case", ""], "no case is named ''"),
                (
                    ["--corpus", "--list", "--markdown", "x"],
                    "--list must come without --markdown",
                ),
                (
                    ["--list"],
                    "there is nothing to check: give a PATH, --corpus or --random N",
                ),
            ],
        ),
    )
    def test_an_unknown_name_is_one_sentence(
        self, arguments: list[str], sentence: str
    ) -> None:
        assert error_of("check", *arguments) == sentence

    @pytest.mark.parametrize(
        "options",
        one_quick_in(
            4,
            [
                ["-k", "1"],
                ["--shard", "2/3"],
                ["-k", "y.json: $"],
                ["--case", "random/7/3"],
            ],
        ),
    )
    def test_a_list_has_the_names_of_the_cases_that_would_run(
        self, monkeypatch: pytest.MonkeyPatch, options: list[str]
    ) -> None:
        program("x.json")
        program("y.json")
        asked = ["x.json", "y.json", "--random", "13", "--seed", "7", *options]
        names = [case.name for case in report(*asked, code=3).cases]
        monkeypatch.setattr(ModelLane, "start", None)
        assert names
        assert output_of("check", *asked, "--list") == "".join(f"{n}\n" for n in names)

    def test_a_list_says_what_cannot_be_listed(self) -> None:
        invalid("bad.json", Axis=2)
        program("x.json")
        assert outcome("check x.json bad.json --list") == (
            1,
            "x.json: $.commands[0] (gather)\n",
            (
                "bad.json: $.dispatchables.gather.desc: Axis must be less than "
                "InputTensor.DimensionCount (2), got 2; did you mean Axis 1?\n"
            ),
        )

    @pytest.mark.parametrize(
        "name",
        one_quick_in(
            4,
            [
                "random/5/40",
                "gather/float32/int64/negative",
                "forbidden/gather-nd/tuple-length/none",
                "x.json: $.commands[0] (gather)",
            ],
        ),
    )
    def test_the_name_of_a_case_says_where_the_case_is(self, name: str) -> None:
        program("x.json")
        found = report("--case", name, code=3)
        assert ([case.name for case in found.cases], found.planned) == ([name], 1)

    @pytest.mark.parametrize("parts", one_quick_in(3, [1, 3, 7]))
    def test_each_case_is_in_one_shard(self, parts: int) -> None:
        program("x.json")
        program("y.json")
        what = "x.json y.json --random 5"
        every = [case.name for case in report(what, code=3).cases]
        shards = [
            report(f"{what} --shard {part}/{parts}", code=3)
            for part in range(1, parts + 1)
        ]
        assert [shard.shard for shard in shards] == [
            f"{k}/{parts}" for k in range(1, parts + 1)
        ]
        names = [[case.name for case in shard.cases] for shard in shards]
        assert sorted(chain.from_iterable(names)) == sorted(every)
        assert max(map(len, names)) - min(map(len, names)) <= 1
        assert [shard.planned for shard in shards] == [*map(len, names)]

    @pytest.mark.parametrize(
        "shard", ["0/2", "3/2", "1", "1/0", "-1/2", "1/2/3", "", "²/2", "1/10000"]
    )
    def test_a_shard_is_one_of_its_parts(self, shard: str) -> None:
        code, out, err = outcome("check --random 1 --shard", shard)
        assert (code, out) == (2, "")
        rule = "the shard must be K/N with K from 1 to N and N below 10,000"
        assert err.endswith(f"Invalid value for '--shard': {rule}, got {shard!r}\n")

    def test_a_shard_without_cases_is_wrong_usage(self) -> None:
        assert error_of("check --random 2 --shard 8/9") == (
            "the shard 8/9 has no case, as there are 2 cases for 9 shards; give"
            " at most 2 shards"
        )

    def test_a_check_stops_at_its_findings(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        change_all(monkeypatch, lambda _: Answer(AnswerKind.BROKEN, "the worker died"))
        found = report("--random", "1" + "0" * 30, "--maxfail", "3", code=1)
        assert (len(found.cases), found.maxfail, found.planned) == (3, 3, 10**30)
        out = outcome("check --random", "1" + "0" * 30, "--maxfail", "3")[1]
        said = (
            f"3 findings (stopped at 3 findings (--maxfail) after 3 of {10**30:,}"
            " cases)"
        )
        assert said in " ".join(out.split())


def test_several_workers_give_the_same_report() -> None:
    one, two = (report(f"--random 40 --jobs {jobs}") for jobs in ("1", "2"))
    assert one.cases == two.cases


class TestReports:
    def test_each_report_goes_to_its_file(self) -> None:
        program("x.json")
        files = "--json=r.json --junit r.xml --html r.html"
        code, out, err = outcome(f"check x.json {files}")
        assert (code, err) == (0, "written: r.json\nwritten: r.xml\nwritten: r.html\n")
        assert out.endswith("cpu: 1 case, 1 PASS\n")
        assert read_report(read_bytes("r.json")).counts(0) == {"PASS": 1}
        assert ElementTree.parse("r.xml").getroot().tag == "testsuites"
        assert read_text("r.html").startswith("<!doctype html>")

    @pytest.mark.slow
    def test_json_without_a_file_prints(self) -> None:
        program("x.json")
        for arguments in (
            ["x.json", "--json"],
            ["--json", "x.json"],
            ["--json=-", "x.json"],
        ):
            out = output_of("check", *arguments)
            assert [case["file"] for case in json.loads(out)["cases"]] == ["x.json"]

    def test_a_program_is_never_replaced_by_a_report(self) -> None:
        program("x.json")
        before = read_bytes(program("y.json"))
        out = output_of("check x.json --json y.json")
        assert [case["file"] for case in json.loads(out)["cases"]] == [
            "x.json",
            "y.json",
        ]
        assert read_bytes("y.json") == before

    @pytest.mark.slow
    def test_a_report_is_replaced(self) -> None:
        program("x.json")
        succeed("check x.json --json=r.json")
        program("y.json")
        succeed("check x.json y.json x.json --json=r.json")
        assert len(read_report(read_bytes("r.json")).cases) == 2

    def test_a_report_that_cannot_be_written_is_found_before_the_check(self) -> None:
        program("x.json")
        Path("file").touch()
        assert (
            error_of("check x.json --html file/r.html")
            == "file/r.html: a file stands where its folder should be"
        )
        Path("folder").mkdir()
        assert error_of("check x.json --junit folder") == "folder: is a directory"
        assert error_of("check x.json --html .") == ".: is a directory"
        assert (
            error_of("check x.json --html", "")
            == "Invalid value for '--html': must not be empty"
        )
        assert files() == ["file", "x.json"]

    def test_a_report_that_cannot_be_written_does_not_cost_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program("x.json")

        def spoiled(_: Case, answer: Answer) -> Answer:
            Path("r.xml").mkdir(exist_ok=True)
            return answer

        change(monkeypatch, spoiled)
        code, out, err = outcome("check x.json --junit r.xml --html r.html")
        assert (code, err) == (2, "Error: r.xml: is a directory\nwritten: r.html\n")
        assert out.endswith("cpu: 1 case, 1 PASS\n")
        assert Path("r.html").exists()

    def test_no_report_replaces_an_input(self) -> None:
        program("bad.json")
        write_text("bad.json", "{}")
        content = read_json(program("x.json"))
        Path("values.bin").write_bytes(DATA_4X3.tobytes())
        content["resources"]["data"]["initialValues"] = {"sourcePath": "values.bin"}
        write_json("x.json", content)
        for file, named in ("bad.json", ""), ("values.bin", r": \S*values.bin"):
            code, out, err = outcome(f"check bad.json x.json --html {file}")
            assert (code, out) == (2, "")
            rule = "must not be written, as it is an input"
            assert re.search(rf"Error: {file} {rule}{named}\n$", err)

    def test_an_empty_file_takes_the_report(self) -> None:
        program("x.json")
        Path("r.json").touch()
        succeed("check x.json --json=r.json")
        assert len(read_report(read_bytes("r.json")).cases) == 1


def test_desc_is_the_one_of_the_program() -> None:
    program("x.json")
    assert report("x.json --html r.html").cases[0].operator == DESC.operator


def test_arrays_are_in_the_report_of_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    program("x.json")
    change(monkeypatch, negative)
    (case,) = report("x.json", code=1).cases
    assert case.evidence is not None
    expected: Any = case.evidence.expected
    output: Array = expected.array()
    assert (-case.evidence.got["cpu"].array()).tobytes() == output.tobytes()
