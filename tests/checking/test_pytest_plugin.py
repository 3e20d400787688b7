"""The pytest plugin, run by pytest on projects of a few lines."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace as replaced

import onnxgather as og
from onnxgather.checking import corpus, lanes
from onnxgather.checking import report_files as reading

# Here, as what an inner run imports is forgotten at its end, and onnx cannot be
# imported twice.
from onnxgather.checking import run as checking
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.known_differences import CasePattern, Known, ResultPattern
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import ResultKind
from onnxgather.cli.check import check_command
from onnxgather.core.errors import OnnxGatherError

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]

# By its module's name, whether the entry point is installed or not.
PLUGIN = ["-p", "no:onnxgather", "-p", "onnxgather.checking.pytest_plugin"]

PROJECT = """
    import numpy as np
    import onnxgather as og

    DESC = og.GatherDesc(
        og.TensorDesc("FLOAT32", [2, 3]),
        og.TensorDesc("INT32", [1, 2]),
        og.TensorDesc("FLOAT32", [2, 2]),
        axis=1,
        index_dimensions=1,
    )
    DATA, INDICES = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([[2, 7]], np.int32)
"""  # noqa: E501


def gather(name: str, indices: list[int]) -> Case:
    """Return a case that gathers from 1 to 3."""
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT32", [3]),
        og.TensorDesc("INT32", [2]),
        og.TensorDesc("FLOAT32", [2]),
        axis=0,
        index_dimensions=1,
    )
    return DescriptorCase(
        name, desc, np.array([1, 2, 3], np.float32), np.array(indices, np.int32)
    )


CASES = [
    gather("gather/right", [0, 1]),
    gather("gather/odd", [2, 0]),
    gather("nd/last", [1, 1]),
]


NOT_RUN = {
    "absent": "there is none",
    "unset": (
        "name its library: --plugin unset=LIBRARY, or its lane is set: --lane set=ENV;"
        " see onnxgather check --lanes set; or --no-known-name, or --adapter"
    ),
}
"""Why lanes do not start, by their names."""


@dataclass
class FakeLane:
    """A lane that does with gather/odd what its name says."""

    name: str
    events: list[str]
    python: str | None = None

    def start(self) -> LaneInfo:
        where = f" in {self.python}" if self.python else ""
        self.events.append(f"start {self.name}{where}")
        return LaneInfo(
            self.name,
            f"{self.name}Provider",
            {"onnxruntime": "1.24.4"},
            not_run=NOT_RUN.get(self.name),
        )

    def answer(self, case: Case) -> Answer:
        self.events.append(f"{self.name} {case.name}" + " wrapped" * case.wrapped)
        if case.name == "gather/odd" and self.name in ("wrong", "known"):
            return Answer(AnswerKind.RAN, output=np.array([3, 0], np.float32))
        if case.name == "gather/odd" and self.name == "broken":
            return Answer(AnswerKind.BROKEN, "the worker died")
        if case.name == "gather/odd" and self.name == "elsewhere":
            return Answer(AnswerKind.NOT_RUN, "a node ran on the CPU")
        expected = case.expected()
        assert not isinstance(expected, str)
        return Answer(AnswerKind.RAN, output=expected)

    def close(self) -> None:
        self.events.append(f"close {self.name}")


def known_differences() -> list[Known]:
    """Return a known difference of two of the lanes."""
    odd = (CasePattern("*/odd"),)
    return [
        Known(
            f"{name}Provider",
            ">=1.24",
            odd,
            (ResultPattern(ResultKind.ELEMENTS),),
            "It is odd.",
            "https://example.com",
        )
        for name in ("known", "mended")
    ]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace lanes, corpus and known differences; return what the lanes are told."""
    told: list[str] = []
    real = lanes.open_lanes

    def open_lanes(
        names: list[str],
        pythons: dict[str, str],
        plugins: dict[str, str],
        target: str | None,
        timeout: float,
        adapters: dict[str, str],
        opset: int,
    ) -> list[FakeLane]:
        if "nowhere" in names:
            raise OnnxGatherError("there is no nowhere")
        if not names:
            real(names)
        if plugins or target or timeout != 60:
            told.append(f"open with {plugins}, target {target}, {timeout} s")
        if adapters or opset != 17:
            told.append(f"open with {adapters}, opset {opset}")
        return [FakeLane(name, told, pythons.get(name)) for name in names]

    def random_cases(count: int, seed: int, out_of_range: str | None) -> Iterator[Case]:
        yield from (
            gather(f"random/{seed}/{out_of_range}/{k}", [0, 1]) for k in range(count)
        )

    def built_in_cases(out_of_range: str | None) -> Iterator[Case]:
        suffix = f"/{out_of_range}" if out_of_range else ""
        yield from (replace(case, name=case.name + suffix) for case in CASES)

    monkeypatch.setattr(lanes, "open_lanes", open_lanes)
    monkeypatch.setattr(corpus, "built_in_cases", built_in_cases)
    monkeypatch.setattr(corpus, "random_cases", random_cases)
    for module in (checking, reading):
        monkeypatch.setattr(module, "known_differences", known_differences)
    return told


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Return a function that runs pytest with the plugin on a project of one passing
    test."""
    pytester.makepyfile(test_own="def test_own(): pass")

    def runs(*options: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess(*PLUGIN, *options)

    return runs


def test_without_options_nothing_is_added(run: Run, events: list[str]) -> None:
    run().assert_outcomes(passed=1)
    assert events == []


def test_a_test_per_case_and_lane_behind_the_projects_own(
    run: Run, events: list[str]
) -> None:
    result = run(
        "-v", "--onnxgather-lanes", "one, two@b=some/python", "--onnxgather-corpus"
    )
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(
        [
            "collecting ... collected 7 items",
            "",
            "test_own.py::test_own PASSED*",
            "onnxgather/one::gather/right PASSED*",
            "onnxgather/one::gather/odd PASSED*",
            "onnxgather/one::nd/last PASSED*",
            "onnxgather/two@b::gather/right PASSED*",
            "onnxgather/two@b::gather/odd PASSED*",
            "onnxgather/two@b::nd/last PASSED*",
        ],
        consecutive=True,
    )
    cases = [case.name for case in CASES]
    assert events == [
        *["start one", *(f"one {name}" for name in cases)],
        *["start two@b in some/python", *(f"two@b {name}" for name in cases)],
        *["close one", "close two@b"],
    ]


def test_findings_fail_in_two_lines(run: Run, events: list[str]) -> None:
    result = run("--onnxgather-lanes", "wrong,broken,mended", "--onnxgather-corpus")
    result.assert_outcomes(passed=7, failed=3)
    result.stdout.fnmatch_lines(
        [
            "onnxgather/wrong .F. *",
            "onnxgather/broken .F. *",
            "onnxgather/mended .F. *",
            "",
            "*= FAILURES =*",
            "*_ onnxgather/wrong/gather/odd _*",
            (
                "wrong: DIFF: 1 of 2 elements differ, first OutputTensor[[]1[]]:"
                " expected 1.0 (00 00 80 3f), got 0.0 (00 00 00 00)"
            ),
            "output[[]1[]] = input[[]indices[[]1[]][]] = input[[]0[]] = 1",
            "*_ onnxgather/broken/gather/odd _*",
            "broken: ERROR: the worker died",
            "*_ onnxgather/mended/gather/odd _*",
            (
                "[[]XPASS(strict)[]] the entry of a known difference can go: mended:"
                " FIXED: passes, although it is a known difference"
            ),
            "It is odd. (https://example.com)",
            "*= short test summary info =*",
        ],
        consecutive=True,
    )


def test_what_did_not_run_is_skipped_and_what_is_known_expected(
    run: Run, events: list[str]
) -> None:
    result = run("-rsx", "--onnxgather-lanes", "elsewhere,known", "--onnxgather-corpus")
    result.assert_outcomes(passed=5, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "SKIPPED [[]1[]] *: elsewhere: NOT-RUN: a node ran on the CPU",
            (
                "XFAIL onnxgather/known::gather/odd - known: KNOWN: It is odd."
                " (https://example.com)"
            ),
        ],
        consecutive=True,
    )


def test_with_runxfail_no_difference_is_known(run: Run, events: list[str]) -> None:
    result = run(
        "--runxfail", "--onnxgather-lanes", "known,mended", "--onnxgather-corpus"
    )
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["known: DIFF: 1 of 2 elements differ, first *"])


def test_without_known_differences_they_are_findings(
    run: Run, events: list[str]
) -> None:
    options = ("--onnxgather-lanes", "known,mended", "--onnxgather-corpus")
    result = run(*options, "--onnxgather-no-known")
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["known: DIFF: 1 of 2 elements differ, first *"])


@pytest.mark.one_quick_in(2)
@pytest.mark.parametrize("in_file", [False, True])
def test_known_differences_of_files_stand_beside_ours(
    pytester: pytest.Pytester, run: Run, events: list[str], in_file: bool
) -> None:
    entry = msgspec.to_builtins(
        replaced(known_differences()[0], provider="wrongProvider")
    )
    file = pytester.path / "differences.json"
    file.write_bytes(msgspec.json.encode([entry]))
    options = ["--onnxgather-known", str(file)]
    if in_file:
        pytester.makeini(f"[pytest]\nonnxgather_known = {file.name}")
        options = []
    result = run(*options, "--onnxgather-lanes", "wrong,known", "--onnxgather-corpus")
    result.assert_outcomes(passed=5, xfailed=2)


def test_a_plugin_library_adds_its_lane(run: Run, events: list[str]) -> None:
    run("--onnxgather-plugin", "gpu=lib.so", "--onnxgather-corpus").assert_outcomes(
        passed=4
    )
    opened = "open with {'gpu': 'lib.so'}, target None, 60 s"
    assert [e for e in events if e.startswith(("open", "start"))] == [
        opened,
        opened,
        "start gpu",
    ]


def test_a_plugin_library_may_be_of_a_lane_in_another_environment(
    run: Run, events: list[str]
) -> None:
    options = ["--onnxgather-lanes", "gpu=python", "--onnxgather-plugin", "gpu=lib.so"]
    run(*options, "--onnxgather-corpus").assert_outcomes(passed=4)
    assert [e for e in events if e.startswith("start")] == ["start gpu in python"]


def test_a_case_runs_without_the_plugin_of_pytest_that_skips(
    run: Run, events: list[str]
) -> None:
    options = ["--onnxgather-lanes", "one", "--onnxgather-corpus", "-p", "no:skipping"]
    run(*options).assert_outcomes(passed=4)
    assert "start one" in events


def test_lanes_get_their_target_timeout_and_plugin_library(
    pytester: pytest.Pytester, run: Run, events: list[str]
) -> None:
    pytester.makepyfile(
        test_own=PROJECT
        + """
    def test_lane(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES, lane="gpu")
        onnxgather_check(DESC, DATA, INDICES, lane="cpu")
"""
    )
    options = (
        "--onnxgather-plugin gpu=lib.so --onnxgather-target webgpu"
        " --onnxgather-timeout 5"
    )
    run("--onnxgather-lanes", "one, gpu", *options.split()).assert_outcomes(passed=1)
    assert [event for event in events if event.startswith("open")] == [
        *["open with {'gpu': 'lib.so'}, target webgpu, 5 s"] * 2,
        "open with {}, target webgpu, 5 s",
    ]


def test_lanes_get_their_adapter_and_opset(
    pytester: pytest.Pytester, run: Run, events: list[str]
) -> None:
    options = (
        "--onnxgather-adapter mine=mine.py --onnxgather-opset 13 --onnxgather-corpus"
    )
    run(*options.split()).assert_outcomes(passed=4)
    opened = "open with {'mine': 'mine.py'}, opset 13"
    assert {event for event in events if event.startswith("open")} == {opened}
    assert any(event.startswith("mine gather/") for event in events)


def test_wrap_puts_each_gather_between_multiplications(
    pytester: pytest.Pytester, run: Run, events: list[str]
) -> None:
    pytester.makepyfile(
        test_own=PROJECT
        + """
    def test_arrays(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES)
"""
    )
    run("--onnxgather-wrap", "--onnxgather-corpus").assert_outcomes(passed=4)
    asked = ["onnxgather_check", *(case.name for case in CASES)]
    assert [e for e in events if e.startswith("cpu")] == [
        f"cpu {name} wrapped" for name in asked
    ]


def test_options_may_stand_in_the_configuration(
    pytester: pytest.Pytester, run: Run, events: list[str]
) -> None:
    pytester.makeini("""
        [pytest]
        onnxgather_lanes = one
        onnxgather_require = one
        onnxgather_plugin = gpu=lib.so
        onnxgather_timeout = 7
        onnxgather_corpus = true
        onnxgather_random = 1
        onnxgather_seed = 9
        onnxgather_wrap = true
        onnxgather_out_of_range = zero
        onnxgather_target = cpu
        onnxgather_no_known = true
        """)
    result = run("--onnxgather-lanes", "known", "--onnxgather-require", "known")
    result.assert_outcomes(passed=9)
    opened = "open with {'gpu': 'lib.so'}, target cpu, 7 s"
    cases = [
        *(f"{case.name}/zero wrapped" for case in CASES),
        "random/9/zero/0 wrapped",
    ]
    assert events == [
        *[opened, opened, "start known", *(f"known {name}" for name in cases)],
        *["start gpu", *(f"gpu {name}" for name in cases)],
        *["close known", "close gpu"],
    ]


def test_each_test_of_a_lane_that_does_not_start_fails(
    run: Run, events: list[str]
) -> None:
    result = run("--onnxgather-lanes", "one,absent", "--onnxgather-corpus")
    result.assert_outcomes(passed=4, failed=3)
    result.stdout.fnmatch_lines(
        ["*_ onnxgather/absent/nd/last _*", "absent: NOT-RUN: there is none"]
    )
    assert not any(event.startswith("absent") for event in events)


@pytest.mark.slow
def test_what_did_not_run_on_a_required_lane_fails(run: Run, events: list[str]) -> None:
    lanes = ("--onnxgather-lanes", "elsewhere,known", "--onnxgather-corpus")
    run(*lanes, "--onnxgather-require", "known").assert_outcomes(
        passed=5, skipped=1, xfailed=1
    )
    for required in (
        [" known,elsewhere"],
        ["known", "--onnxgather-require", "elsewhere"],
    ):
        result = run(*lanes, "--onnxgather-require", *required)
        result.assert_outcomes(passed=5, xfailed=1, failed=1)
    result.stdout.fnmatch_lines(["elsewhere: NOT-RUN: a node ran on the CPU"])


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("odd", ["one gather/odd", "two gather/odd"]),
        ("one and nd/last", ["one nd/last"]),
        ("onnxgather/two/gather", ["two gather/right", "two gather/odd"]),
        ("test_own", []),
    ],
)
def test_an_expression_of_k_selects_cases(
    run: Run, events: list[str], selection: str, names: list[str]
) -> None:
    run("--onnxgather-lanes", "one,two", "--onnxgather-corpus", "-k", selection)
    asked = [e for e in events if not e.startswith(("start", "close"))]
    assert asked == names
    assert [e for e in events if e.startswith("start")] == sorted(
        {f"start {name.split()[0]}" for name in names}
    )


def test_collect_only_starts_no_lane(run: Run, events: list[str]) -> None:
    result = run(
        "--collect-only", "-q", "--onnxgather-lanes", "one", "--onnxgather-corpus"
    )
    assert result.outlines[:4] == [
        "test_own.py::test_own",
        *(f"onnxgather/one::{case.name}" for case in CASES),
    ]
    assert events == ["close one"]


def test_option_x_stops_at_the_first_finding(run: Run, events: list[str]) -> None:
    run("-x", "--onnxgather-lanes", "wrong", "--onnxgather-corpus").assert_outcomes(
        passed=2, failed=1
    )
    assert "wrong nd/last" not in events


def test_random_cases_are_collected(run: Run, events: list[str]) -> None:
    options = "--onnxgather-random 2 --onnxgather-seed 7 --onnxgather-out-of-range zero"
    result = run("--collect-only", "-q", *options.split())
    assert result.outlines[1:3] == [
        f"onnxgather/cpu::random/7/zero/{k}" for k in range(2)
    ]


@pytest.mark.one_quick_in(4)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--onnxgather-lanes", "nowhere"], "--onnxgather-lanes: there is no nowhere"),
        *(
            (
                ["--onnxgather-lanes", lanes],
                (
                    "--onnxgather-lanes: lanes must name one beside the reference, got"
                    " none"
                ),
            )
            for lanes in ("", " , ", "reference")
        ),
        *(
            (
                ["--onnxgather-lanes", f"one,{lane}"],
                f"--onnxgather-lanes: a lane must be NAME or NAME=PATH, got '{lane}'",
            )
            for lane in ("two=", "=two", "=")
        ),
        (
            ["--onnxgather-lanes", "one,two", "--onnxgather-require", "tow"],
            "--onnxgather-require: a lane must be one of one, two, got 'tow'",
        ),
        (
            ["--onnxgather-random", "2", "--onnxgather-out-of-range", "wrap"],
            (
                "--onnxgather-out-of-range: out_of_range must be one of clamp, error,"
                " zero, directml, got 'wrap'"
            ),
        ),
        (
            ["--onnxgather-target", "gpu"],
            (
                "--onnxgather-target: target must be one of portable, cpu, webgpu,"
                " native, got 'gpu'"
            ),
        ),
        (
            ["--onnxgather-plugin", "gpu"],
            "--onnxgather-plugin: must be NAME=LIBRARY, got 'gpu'",
        ),
        (
            ["--onnxgather-plugin", "gpu=a", "--onnxgather-plugin", "gpu=b"],
            "--onnxgather-plugin: must differ, got 'gpu' twice",
        ),
        (
            ["--onnxgather-known", "none.json"],
            "--onnxgather-known: none.json: no such file or directory",
        ),
    ],
)
def test_unusable_options_are_one_sentence(
    run: Run, events: list[str], options: list[str], message: str
) -> None:
    result = run(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[0] == f"ERROR: {message}"


def test_the_options_are_those_of_the_command(run: Run) -> None:
    text = str(run("--help").stdout)
    flags = set(re.findall(r"^  --onnxgather-([\w-]+)", text, re.MULTILINE))
    in_file = re.findall(r"^  onnxgather_(\w+) \(", text, re.MULTILINE)
    assert flags == {name.replace("_", "-") for name in in_file}
    assert len(flags) == 14
    assert flags < {
        option[2:] for parameter in check_command.params for option in parameter.opts
    }
    assert "--onnxgather-seed=S   Of --onnxgather-random." in text


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("random", "-1", "of at least 1, got '-1'"),
        ("seed", "1.5", "of at least 0, got '1.5'"),
        ("timeout", "0", "from 1 to 86400, got '0'"),
        ("timeout", "86401", "from 1 to 86400, got '86401'"),
    ],
)
def test_counts_are_integers(run: Run, option: str, value: str, rule: str) -> None:
    result = run(f"--onnxgather-{option}", value)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        result.errlines[0] == f"ERROR: --onnxgather-{option}: must be an integer {rule}"
    )


def test_a_mistake_in_the_configuration_is_one_sentence(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makeini("[pytest]\nonnxgather_timeout = soon")
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        result.errlines[0]
        == "ERROR: --onnxgather-timeout: must be an integer from 1 to 86400, got 'soon'"
    )


def test_an_unknown_lane_is_a_usage_error(run: Run) -> None:
    result = run("--onnxgather-lanes", "cpu,gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        result.errlines[0]
        == "ERROR: --onnxgather-lanes: provider must be one of openvino-runtime,"
        " opencv, tvm, iree, mnn, tract, onnx-reference, cpu, directml, openvino,"
        " cuda, tensorrt, webgpu, qnn, coreml, web-wasm, web-webgpu, web-webnn,"
        " webnn, or"
        " ONNX Runtime's full name of one, which ends in ExecutionProvider, got"
        " 'gpu'; a lane on a runtime of your own needs --onnxgather-adapter gpu=FILE.py"
    )


def failed_on(pytester: pytest.Pytester, run: Run, lane: str) -> pytest.RunResult:
    """Return the run of a project whose one test fails on a lane."""
    test = f"""
    def test_on_lane(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES, lane={lane!r})
"""
    pytester.makepyfile(test_own=PROJECT + test)
    result = run()
    result.assert_outcomes(failed=1)
    return result


def test_sentences_name_the_options_of_pytest(
    pytester: pytest.Pytester, run: Run, events: list[str]
) -> None:
    result = failed_on(pytester, run, "unset")
    line = (
        "unset: NOT-RUN: name its library: --onnxgather-plugin unset=LIBRARY, or its"
        " lane is set: --onnxgather-lanes set=ENV; see onnxgather check --lanes set;"
        " or --no-known-name, or --onnxgather-adapter"
    )
    assert line in result.outlines


def test_an_error_of_the_fixture_names_the_options_of_pytest(
    pytester: pytest.Pytester, run: Run
) -> None:
    result = failed_on(pytester, run, "gpu")
    rule = "a lane on a runtime of your own needs --onnxgather-adapter gpu=FILE.py"
    result.stdout.fnmatch_lines([f"E *ProviderError: * got 'gpu'; {rule}"])


def test_the_fixture_checks_a_descriptor_arrays_or_a_case(
    pytester: pytest.Pytester, run: Run, events: list[str]
) -> None:
    pytester.makepyfile(
        test_own=PROJECT
        + """
    def test_arrays(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES, "zero")

    def test_case(onnxgather_check):
        from onnxgather.checking.corpus import built_in_cases
        for case in built_in_cases(None):
            onnxgather_check(case)

    def test_other_lane(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES, lane="absent")

    def test_no_array(onnxgather_check):
        onnxgather_check(DESC, DATA)

    def test_no_lane(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES, lane="nowhere")
"""
    )
    result = run("-rs", "--onnxgather-lanes", "one,wrong")
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "*_ test_case _*",
            "wrong: DIFF: 1 of 2 elements differ, first *",
            "output[[]1[]] = input[[]indices[[]1[]][]] = input[[]0[]] = 1",
            "*_ test_other_lane _*",
            "absent: NOT-RUN: there is none",
            "*_ test_no_array _*",
            (
                "E *DescriptorError: IndicesTensor must be an array of int32 (1, 2),"
                " got None"
            ),
            "*_ test_no_lane _*",
            "E *OnnxGatherError: there is no nowhere",
        ]
    )
    assert [e for e in events if e.endswith("onnxgather_check")] == [
        "one onnxgather_check",
        "wrong onnxgather_check",
    ]


def test_a_lane_is_told_by_its_name_and_its_python(
    pytester: pytest.Pytester, run: Run, events: list[str]
) -> None:
    pytester.makepyfile(
        test_own=PROJECT
        + """
    def test_lanes(onnxgather_check):
        for lane in (None, "one", "one=other/python", "one,", " reference, one", "two=python,one",
                     "one=other/python"):
            onnxgather_check(DESC, DATA, INDICES, lane=lane)

    def test_none(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES, lane="")
"""  # noqa: E501
    )
    result = run("--onnxgather-lanes", "one,")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["E *OnnxGatherError: lanes must name one beside the reference, got none"]
    )
    asked = "one onnxgather_check"
    assert events == [
        *["start one", asked, asked],
        *["start one in other/python", asked, asked, asked],
        *["start two in python", "two onnxgather_check", asked, asked],
        *["close one", "close one", "close two"],
    ]


def test_an_interpreter_that_is_not_there_did_not_run(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        test_own=PROJECT
        + """
    def test_here(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES)
        onnxgather_check(DESC, DATA, INDICES, lane="reference,cpu")

    def test_there(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES, lane="cpu=/none/python")

    def test_twice(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES, lane="cpu,cpu=/none/python")
"""
    )
    result = run()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "cpu: NOT-RUN: /none/python does not start: No such file or directory",
            "E *OnnxGatherError: lanes must differ, got 'cpu' twice",
        ]
    )


def test_cases_run_on_the_cpu_provider(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        test_own=PROJECT
        + """
    def test_arrays(onnxgather_check):
        onnxgather_check(DESC, DATA, INDICES)
"""
    )
    chosen = "test_arrays or random or gather/float32"
    result = run("--onnxgather-random", "3", "--onnxgather-corpus", "-k", chosen)
    passed = result.parseoutcomes()["passed"]
    assert passed > 4
    result.assert_outcomes(
        passed=passed, deselected=result.parseoutcomes()["deselected"]
    )


@pytest.mark.slow
def test_the_tests_are_the_same_in_every_worker(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[list[str]] = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        options = [
            "--collect-only",
            "-q",
            "--onnxgather-corpus",
            "--onnxgather-random",
            "5",
        ]
        lines.append(pytester.runpytest_subprocess(*PLUGIN, *options).outlines[:-1])
    assert len(lines[0]) > 1000
    assert lines[0] == lines[1]


@pytest.mark.slow
def test_importing_it_imports_the_errors_of_the_package_alone() -> None:
    code = (
        "import sys, pytest, argparse, onnxgather; before = {*sys.modules}; "
        "import onnxgather.checking.pytest_plugin; "
        "print(*sorted({*sys.modules} - before)); "
        "print(*sorted({'onnx', 'onnxruntime', 'click'} & {*sys.modules}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    modules, heavy = result.stdout.splitlines()
    assert modules.split() == [
        "onnxgather.checking",
        "onnxgather.checking.pytest_plugin",
        "onnxgather.core",
        "onnxgather.core.errors",
    ]
    assert heavy == ""
