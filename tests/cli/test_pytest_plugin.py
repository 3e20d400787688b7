"""The pytest plugin, run by pytest on projects of a few lines."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from command_line import changed, invalid, program, read_json, write_text
from folders import MODELS
from messages import rows_of
from msgspec.structs import replace as replaced
from onnx_gathers import ONNX_GATHERS, write_gather
from planned_lane import case, ran
from planted_adapter import planted
from rings import one_quick_in

from onnxgather.checking import corpus, lanes
from onnxgather.checking import report_files as reading

# Here, as what an inner run imports is forgotten at its end, and onnx cannot be
# imported twice.
from onnxgather.checking import run as checking
from onnxgather.checking.cases import Case
from onnxgather.checking.known_differences import CasePattern, Known, ResultPattern
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import ResultKind
from onnxgather.cli.check import check_command
from onnxgather.cli.words import REFUSED, asked_for
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution import kernels

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]

# By its module's name, whether the entry point is installed or not.
PLUGIN = ["-p", "no:onnxgather", "-p", "onnxgather.cli.pytest_plugin"]

PROJECT = """
import numpy as np
from onnxgather.checking.corpus import built_in_cases
from onnx_gathers import ONNX_GATHERS
from planned_lane import DATA, DESC

INDICES = np.array([[2, 7]], np.int32)
"""

ONE_TEST = """
def test_one(onnxgather_check):
    onnxgather_check(DESC, DATA, INDICES)
"""

TEST = "programs/swap.json[$.commands[0] (gather)]"
"""The name of the test of a program's only case."""

PATTERN = TEST.replace("[", "[[]", 1).replace("[0]", "[[]0]")
"""A pattern that this name alone matches."""


CASES = [
    replace(case(0, 1), name="gather/right"),
    replace(case(2, 0), name="gather/odd"),
    replace(case(1, 1), name="nd/last"),
]


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
            not_run="there is none" if self.name == "absent" else None,
        )

    def answer(self, case: Case) -> Answer:
        self.events.append(f"{self.name} {case.name}" + " wrapped" * case.wrapped)
        if case.name == "gather/odd" and self.name in ("wrong", "known"):
            return ran([[5, 6], [0, 2]])
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

    def open_lanes(
        names: list[str],
        pythons: dict[str, str],
        plugins: dict[str, str],
        target: str | None,
        timeout: float,
        adapters: dict[str, str],
        opset: int,
        provider_options: dict[str, dict[str, str]],
    ) -> list[FakeLane]:
        all_names = list(dict.fromkeys([*names, *pythons, *plugins, *adapters]))
        if "nowhere" in all_names:
            raise OnnxGatherError("there is no nowhere")
        if plugins or adapters or target or (timeout, opset) != (60, 17):
            told.append(f"{plugins} {adapters} {target} {timeout} s, opset {opset}")
        if provider_options:
            told.append(f"{provider_options}")
        return [FakeLane(name, told, pythons.get(name)) for name in all_names]

    def built_in_cases(out_of_range: str | None) -> Iterator[Case]:
        suffix = f"/{out_of_range}" if out_of_range else ""
        yield from (replace(case, name=case.name + suffix) for case in CASES)

    monkeypatch.setattr(lanes, "open_lanes", open_lanes)
    monkeypatch.setattr("onnxgather.cli.words.open_lanes", open_lanes)
    monkeypatch.setattr(corpus, "built_in_cases", built_in_cases)
    for module in (checking, reading):
        monkeypatch.setattr(module, "known_differences", known_differences)
    return told


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Return a function that runs pytest with the plugin on a project of one passing
    test."""
    pytester.makepyfile(test_own="def test_own(): pass")

    def runs(words: str | None = None, *options: str) -> pytest.RunResult:
        given = [] if words is None else [f"--onnxgather={words}"]
        return pytester.runpytest_inprocess(*PLUGIN, *given, *options)

    return runs


def project(pytester: pytest.Pytester, tests: str) -> None:
    """Write the tests of the project, which may use `PROJECT`."""
    pytester.makepyfile(test_own=PROJECT + textwrap.dedent(tests))


def names_of(result: pytest.RunResult) -> list[str]:
    """Return the names of the tests that --collect-only -q prints."""
    return [line for line in result.outlines if "::" in line]


def sentence_of(result: pytest.RunResult) -> str:
    """Return the sentence of a mistake in the words, which is all that is printed."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "INTERNALERROR" not in str(result.stdout)
    sentence, end = result.errlines
    assert end == ""
    return sentence.removeprefix("ERROR: ")


class TestCases:
    """Each case on each lane is a test."""

    def test_a_test_per_case_and_lane_behind_the_projects_own(
        self, run: Run, events: list[str]
    ) -> None:
        Path("python").touch()
        result = run("--corpus --lanes one --lane two@b=python", "-v")
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
            *["start two@b in python", *(f"two@b {name}" for name in cases)],
            *["close one", "close two@b"],
        ]

    def test_findings_fail_in_a_few_lines(self, run: Run, events: list[str]) -> None:
        result = run("--corpus --lanes wrong,broken,mended")
        result.assert_outcomes(passed=8, failed=2)
        result.stdout.fnmatch_lines(
            [
                "onnxgather/wrong .F. *",
                "onnxgather/broken .F. *",
                "onnxgather/mended ... *",
                "",
                "*= FAILURES =*",
                "*_ onnxgather/wrong/gather/odd _*",
                (
                    "wrong: DIFF: 1 of 4 elements differ, first OutputTensor[[]1,0[]]:"
                    " expected 1.0 (00 00 80 3f), got 0.0 (00 00 00 00)"
                ),
                "output[[]1,0[]] = input[[]indices[[]1[]], 0[]] = input[[]0, 0[]] = 1",
                "ran: Gather",
                "*_ onnxgather/broken/gather/odd _*",
                "broken: ERROR: the worker died",
                "*= short test summary info =*",
            ],
            consecutive=True,
        )

    def test_what_did_not_run_is_skipped_and_what_is_known_expected(
        self, run: Run, events: list[str]
    ) -> None:
        words = "--corpus --lanes elsewhere,known"
        result = run(words, "-rsx")
        result.assert_outcomes(passed=5, skipped=1, xfailed=1)
        not_run = "elsewhere: NOT-RUN: a node ran on the CPU"
        known = "known: KNOWN: It is odd. (https://example.com)"
        result.stdout.fnmatch_lines(
            [
                f"SKIPPED [[]1[]] onnxgather/elsewhere:1: {not_run}",
                f"XFAIL onnxgather/known::gather/odd - {known}",
            ],
            consecutive=True,
        )
        required = run(f"{words} --require elsewhere")
        required.assert_outcomes(passed=5, xfailed=1, failed=1)
        assert not_run in required.outlines

    def test_the_known_differences_are_ours_those_of_files_or_none(
        self, run: Run, events: list[str]
    ) -> None:
        words = "--corpus --lanes wrong,known"
        run(words).assert_outcomes(passed=5, xfailed=1, failed=1)
        run(words, "--runxfail").assert_outcomes(passed=5, failed=2)
        run(f"{words} --no-known").assert_outcomes(passed=5, failed=2)
        entry = replaced(known_differences()[0], provider="wrongProvider")
        Path("known.json").write_bytes(msgspec.json.encode([entry]))
        run(f"{words} --known known.json").assert_outcomes(passed=5, xfailed=2)

    def test_each_test_of_a_lane_that_does_not_start_fails(
        self, run: Run, events: list[str]
    ) -> None:
        result = run("--corpus --lanes one,absent")
        result.assert_outcomes(passed=4, failed=3)
        result.stdout.fnmatch_lines(
            ["*_ onnxgather/absent/nd/last _*", "absent: NOT-RUN: there is none"]
        )
        assert not any(event.startswith("absent") for event in events)

    def test_a_case_runs_without_the_plugin_of_pytest_that_skips(
        self, run: Run, events: list[str]
    ) -> None:
        run("--corpus --lanes one", "-p", "no:skipping").assert_outcomes(passed=4)
        assert "start one" in events

    def test_an_expression_of_k_selects_tests(
        self, run: Run, events: list[str]
    ) -> None:
        run("--corpus --lanes one,two", "-k", "onnxgather/two/gather and not odd")
        assert events == ["start two", "two gather/right", "close one", "close two"]

    def test_collect_only_starts_no_lane(self, run: Run, events: list[str]) -> None:
        result = run("--corpus --lanes one", "--collect-only", "-q")
        assert names_of(result) == [
            "test_own.py::test_own",
            *(f"onnxgather/one::{case.name}" for case in CASES),
        ]
        assert events == ["close one"]
        result = run("--case gather/odd", "--collect-only", "-q")
        assert names_of(result)[1:] == ["onnxgather/cpu::gather/odd"]


class TestWords:
    """The words are those of the command, and stand in an option or an entry."""

    def test_the_words_reach_the_lanes_and_the_cases(
        self, run: Run, events: list[str]
    ) -> None:
        Path("lib.so").touch()
        Path("mine.py").touch()
        words = (
            "--plugin gpu=lib.so --adapter mine=mine.py --target webgpu --timeout 5"
            " --opset 13 --provider-option gpu:a=b:c=d --provider-option gpu:e=f"
            " --corpus --random 2 --seed 9 --out-of-range zero --wrap"
            " -k d --shard 2/2"
        )
        result = run(words, "-v")
        cases = ["nd/last/zero", "random/9/1"]
        tests = [
            f"onnxgather/{lane}::{case}" for lane in ("gpu", "mine") for case in cases
        ]
        assert [line.split(" ")[0] for line in names_of(result)[1:]] == tests
        opened = "{'gpu': 'lib.so'} {'mine': 'mine.py'} webgpu 5 s, opset 13"
        settings = "{'gpu': {'a': 'b:c=d', 'e': 'f'}}"
        assert events[:2] == [opened, settings]
        assert events[2:4] == ["start gpu", "gpu nd/last/zero wrapped"]

    def test_a_word_may_have_blanks_and_backslashes(
        self, run: Run, events: list[str]
    ) -> None:
        result = run(r"'my models' \new.json --lanes one")
        result.assert_outcomes(passed=1, failed=2)
        result.stdout.fnmatch_lines(
            [
                r"\new.json: no such file or directory",
                "*",
                "my models: no such file or directory",
            ]
        )

    def test_an_option_of_the_command_is_accepted_or_has_one_of_pytest_instead(
        self,
    ) -> None:
        accepted = {option for param in check_command.params for option in param.opts}
        accepted -= {*REFUSED}
        assert accepted == {
            *["paths", "--corpus", "--random", "--seed", "-k", "--case", "--shard"],
            *["--lanes", "--lane", "--plugin", "--adapter", "--timeout", "--require"],
            "--provider-option",
            *["--wrap", "--node", "--inputs", "--out-of-range", "--target", "--opset"],
            *["--known", "--no-known", "--allow-outside"],
        }

    @pytest.mark.parametrize(
        ("word", "instead"),
        rows_of("""
--json
use pytest's own --junit-xml

--json=x.json
use pytest's own --junit-xml

--junit x.xml
use pytest's own --junit-xml

--html x.html
use --html of pytest-html

--markdown x.md
use pytest's own --junit-xml

--with-paths
leave it out, as pytest's own --junit-xml names paths

--write-known x.json
use onnxgather check --write-known FILE, then --known FILE here

--list
use pytest's own --collect-only

--maxfail 1
use pytest's own --maxfail

--jobs 1
use -n of pytest-xdist

--help
use onnxgather check --help

-h
use onnxgather check --help
"""),
    )
    def test_a_word_that_is_not_for_tests_names_the_option_of_pytest(
        self, run: Run, events: list[str], word: str, instead: str
    ) -> None:
        option = word.split(" ")[0].partition("=")[0]
        rule = "the words must choose cases and lanes alone"
        told = sentence_of(run(f"--corpus {word}"))
        assert told == f"--onnxgather: {rule}, got {option}; {instead}"
        assert not [name for name in os.listdir() if name.startswith("x.")]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            *rows_of("""
--maxfial 1
No such option '--maxfial'. Did you mean '--maxfail'?

--lanes
Option '--lanes' requires an argument.

--lanes nowhere
there is no nowhere

--lanes one,two --require tow
--require must be one of one, two, got 'tow'

--known none.json --corpus
none.json: no such file or directory

--corpus -k ode
no case name contains 'ode'

-
a PATH must be a file or a folder, got -

-k odd --lanes one
-k and --shard must come with a PATH, --corpus or --random N, got '-k odd --lanes one'

--corpus --node x
--node and --shape must come with an ONNX model, got none
"""),
            ("'models", 'a quote must be closed, got "\'models"'),
        ],
    )
    def test_unusable_words_are_one_sentence(
        self, run: Run, events: list[str], words: str, message: str
    ) -> None:
        assert sentence_of(run(words)) == f"--onnxgather: {message}"

    def test_unusable_words_are_one_sentence_with_workers_and_in_the_configuration(
        self, pytester: pytest.Pytester, run: Run
    ) -> None:
        pytester.makeini("[pytest]\nonnxgather = --corpus --timeout soon")
        told = sentence_of(run("--corpus -k nowhere", "-n", "2"))
        assert told == "--onnxgather: no case name contains 'nowhere'"
        rule = "Invalid value for '--timeout': 'soon' is not a valid integer range."
        assert sentence_of(run()) == f"the entry onnxgather: {rule}"

    @pytest.mark.slow
    def test_a_list_in_the_configuration_is_one_sentence(
        self, pytester: pytest.Pytester
    ) -> None:
        pytester.makepyprojecttoml("tool.pytest.ini_options.onnxgather = ['--corpus']")
        # pytest warns of the list, where it does not refuse it.
        result = pytester.runpytest_subprocess(*PLUGIN, "-W", "ignore")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        told = "the entry onnxgather: the words must be one text, got ['--corpus']"
        assert f"ERROR: {told}" in result.errlines

    def test_the_help_names_the_equals_sign_without_which_an_option_is_no_value(
        self, run: Run
    ) -> None:
        text = " ".join(str(run(None, "--help").stdout).split())
        assert "--onnxgather=WORDS words of" in text
        assert 'after "=": --onnxgather="models --lanes cpu,openvino"' in text
        result = run(None, "--onnxgather", "--corpus")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        sentence = "*: error: argument --onnxgather: expected one argument"
        result.stderr.fnmatch_lines([sentence])

    def test_the_option_takes_the_place_of_the_entry_which_adds_no_test_to_a_path(
        self, pytester: pytest.Pytester, run: Run, events: list[str]
    ) -> None:
        pytester.makeini("[pytest]\nonnxgather =\n  --corpus\n  --lanes one")
        run().assert_outcomes(passed=4)
        run("").assert_outcomes(passed=1)
        run(None, "test_own.py").assert_outcomes(passed=1)
        run("--corpus --lanes wrong", "test_own.py").assert_outcomes(passed=3, failed=1)

    def test_a_project_that_does_not_use_it_imports_nothing(
        self, pytester: pytest.Pytester
    ) -> None:
        pytester.makepyfile("""
            import sys

            def test_modules():
                ours = {name for name in sys.modules if name.startswith("onnxgather")}
                plugin = "onnxgather.cli.pytest_plugin"
                assert ours == {"onnxgather", "onnxgather.cli", plugin}
                assert not {"click", "msgspec", "onnx", "onnxruntime"} & {*sys.modules}
        """)
        pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


class TestFiles:
    """Programs and models are tests, wherever pytest was started."""

    @pytest.fixture(autouse=True)
    def files(self, run: Run) -> None:
        """Put a program, whose data are in a file, and files that cannot be used into a
        folder."""
        path = program("programs/swap.json")
        resources = read_json(path)["resources"]
        np.save("programs/data.npy", np.arange(12, dtype=np.float32))
        resources["data"] = {"initialValues": {"sourcePath": "data.npy"}}
        changed(path, resources=resources)
        write_text("programs/broken.json", "{")
        invalid("programs/refused.json", Axis=7)

    @pytest.mark.slow
    @pytest.mark.parametrize("options", one_quick_in(2, [[], ["-n", "2"]]))
    def test_an_unusable_file_fails_and_the_others_run(
        self, run: Run, pytester: pytest.Pytester, options: list[str]
    ) -> None:
        pytester.makeini("[pytest]")
        os.chdir(pytester.mkdir("inner"))
        words = "../programs ../none.json --lanes cpu,onnx-reference"
        result = run(words, "--junit-xml=junit.xml", *options)
        result.assert_outcomes(passed=2, failed=3)
        lines = {
            "programs/broken.json: line 1 column 2: expected a field name in double"
            " quotes, got the end of the text",
            "programs/refused.json: $.dispatchables.gather.desc: Axis must be less than"
            " InputTensor.DimensionCount (2), got 7; did you mean Axis 1?",
            "none.json: no such file or directory",
        }
        assert lines <= {*result.outlines}
        junit = Path("junit.xml").read_text("utf-8")
        assert str(pytester.path) not in junit
        cases = ElementTree.fromstring(junit).iter("testcase")
        assert sorted(
            f"{case.get('classname')} {case.get('name')}" for case in cases
        ) == [
            "onnxgather none.json",
            "onnxgather programs/broken.json",
            "onnxgather programs/refused.json",
            f"onnxgather.cpu {TEST}",
            f"onnxgather.onnx-reference {TEST}",
        ]

    def test_a_file_may_turn_out_to_be_unusable_while_its_cases_are_made(
        self, run: Run, pytester: pytest.Pytester
    ) -> None:
        pytester.makeconftest("""
            import os

            def pytest_sessionstart():
                os.unlink("programs/data.npy")
        """)
        result = run("programs/swap.json")
        result.assert_outcomes(passed=1, failed=1)
        place = "programs/swap.json: $.resources.data.initialValues.sourcePath"
        result.stdout.fnmatch_lines([f"{place}: no such file or directory: *data.npy"])

    def test_nothing_is_printed_while_files_are_read(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        minutes = SimpleNamespace(monotonic=count(step=60).__next__)
        monkeypatch.setattr("onnxgather.cli.terminal.time", minutes)
        asked = asked_for("programs --lanes cpu", Path(), Path(), adds_tests=True)
        assert len(asked.cases()) == 1
        assert len(asked.unusable) == 2
        assert asked.notes == []
        assert capsys.readouterr() == ("", "")

    def test_the_paths_of_the_entry_are_from_the_root_folder(
        self, run: Run, pytester: pytest.Pytester
    ) -> None:
        gather_first = """
            def gather(data, indices):
                return data[:, indices.astype(np.int64).ravel()]
        """
        planted(pytester.path, gather_first)
        words = "programs/swap.json --adapter planted=planted.py --target portable"
        pytester.makeini(f"[pytest]\nonnxgather = {words} --opset 13")
        os.chdir(pytester.mkdir("inner"))
        result = run(None, "-v")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([f"../onnxgather/planted::{PATTERN} PASSED*"])

    def test_the_case_of_a_file_is_named_from_where_pytest_starts(
        self, run: Run, pytester: pytest.Pytester
    ) -> None:
        pytester.makeini("[pytest]")
        os.chdir(pytester.mkdir("inner"))
        result = run("--case '../programs/swap.json: $.commands[0] (gather)'", "-v")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([f"../onnxgather/cpu::{PATTERN} PASSED*"])

    def test_a_test_that_is_skipped_has_no_absolute_path_in_a_report(
        self, run: Run, pytester: pytest.Pytester, events: list[str]
    ) -> None:
        pytester.makeini("[pytest]")
        os.chdir(pytester.mkdir("inner"))
        result = run("--corpus --lanes elsewhere", "-rs", "--junit-xml=junit.xml")
        text = "elsewhere: NOT-RUN: a node ran on the CPU"
        place = "../onnxgather/elsewhere:1"
        assert f"SKIPPED [1] {place}: {text}" in result.outlines
        assert f">{place}: {text}</skipped>" in Path("junit.xml").read_text("utf-8")

    def test_gathers_of_a_model_are_tests_and_what_is_left_out_is_told(
        self, run: Run, pytester: pytest.Pytester
    ) -> None:
        pytester.makeini("[pytest]")
        for suffix in ("onnx", "npz"):
            shutil.copy(MODELS / f"networks/keywords.{suffix}", pytester.path)
        os.chdir(pytester.mkdir("inner"))
        result = run("../keywords.onnx --inputs ../keywords.npz", "-v")
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(
            [
                "*: left out: main graph: Gather 'keep_best': it did not run with these"
                " inputs",
                "",
                "*::keywords.onnx[[]main graph: node 'length'] PASSED*",
                "*::keywords.onnx[[]main graph: node 'position_embedding'] PASSED*",
                "*::keywords.onnx[[]main graph: node 'word_embedding'] PASSED*",
            ],
            consecutive=True,
        )

    def test_a_gather_that_no_descriptor_says_is_a_test_and_told(
        self, run: Run, pytester: pytest.Pytester
    ) -> None:
        write_gather(pytester.path, "bool", ONNX_GATHERS["bool"])
        result = run("bool.onnx --inputs bool.npz", "-v")
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(
            [
                "bool.onnx: main graph: node 'g': no descriptor of DirectML says it, as"
                " DirectML gathers no BOOL; so the formula of ONNX counts, *",
                "*::bool.onnx[[]main graph: node 'g'] PASSED*",
            ]
        )


class TestFixture:
    """The fixture checks a gather in a test of the project."""

    def test_it_checks_a_descriptor_arrays_or_a_case(
        self, pytester: pytest.Pytester, run: Run, events: list[str]
    ) -> None:
        project(
            pytester,
            """
            def test_arrays(onnxgather_check):
                onnxgather_check(DESC, DATA, INDICES, "zero")

            def test_case(onnxgather_check):
                for case in built_in_cases(None):
                    onnxgather_check(case)

            def test_no_array(onnxgather_check):
                onnxgather_check(DESC, DATA)

            def test_node(onnxgather_check):
                onnxgather_check(ONNX_GATHERS["fewer-indices"].case)
            """,
        )
        result = run("--lanes one,wrong")
        result.assert_outcomes(passed=2, failed=2)
        result.stdout.fnmatch_lines(
            [
                "*_ test_case _*",
                "wrong: DIFF: 1 of 4 elements differ, first *",
                "output[[]1,0[]] = input[[]indices[[]1[]], 0[]] = input[[]0, 0[]] = 1",
                "*_ test_no_array _*",
                (
                    "E *DescriptorError: IndicesTensor must be an array of int32 (1,"
                    " 2), got None"
                ),
            ]
        )
        assert events[:4] == [
            *["start one", "one onnxgather_check"],
            *["start wrong", "wrong onnxgather_check"],
        ]

    def test_without_words_its_lane_is_the_cpu_provider(
        self, pytester: pytest.Pytester, run: Run
    ) -> None:
        project(
            pytester,
            """
            from hypothesis import given, settings, strategies

            @given(strategies.integers(-3, 2))
            @settings(max_examples=5, deadline=None)
            def test_drawn(onnxgather_check, index):
                onnxgather_check(DESC, DATA, np.array([[index, 0]], np.int32), "error")
            """,
        )
        run().assert_outcomes(passed=1)

    def test_the_words_wrap_its_gathers(
        self, pytester: pytest.Pytester, run: Run, events: list[str]
    ) -> None:
        project(pytester, ONE_TEST)
        run("--wrap").assert_outcomes(passed=1)
        assert events[:2] == ["start cpu", "cpu onnxgather_check wrapped"]

    def test_a_lane_is_told_by_its_name_and_its_path_and_opened_once(
        self, pytester: pytest.Pytester, run: Run, events: list[str]
    ) -> None:
        Path("python").touch()
        Path("lib.so").touch()
        project(
            pytester,
            """
            import pytest

            LANES = ["two", "three", "two=other/python", "three", "two=other/python"]

            @pytest.mark.parametrize("lane", [*LANES, "absent", "nowhere", ""])
            def test_lane(onnxgather_check, lane):
                onnxgather_check(DESC, DATA, INDICES, lane=lane)
            """,
        )
        words = (
            "--lanes one --lane two=python --plugin three=lib.so --adapter four=lib.so"
        )
        result = run(words)
        result.assert_outcomes(passed=5, failed=3)
        result.stdout.fnmatch_lines(
            [
                "absent: NOT-RUN: there is none",
                "E *OnnxGatherError: there is no nowhere",
                "E *OnnxGatherError: a lane must be NAME or NAME=PATH, got ''",
            ]
        )
        asked = "onnxgather_check"
        opened = "{'three': 'lib.so'} {'four': 'lib.so'} None 60 s, opset 17"
        assert events == [
            *[opened, "start two in python", f"two {asked}"],
            *["start three", f"three {asked}"],
            *["start two in other/python", f"two {asked}"],
            *[f"three {asked}", f"two {asked}", "start absent"],
            *[f"close {lane}" for lane in ("one", "two", "three", "four")],
            *["close two", "close absent"],
        ]

    def test_what_one_lane_does_not_run_does_not_skip_what_passed_on_another(
        self, pytester: pytest.Pytester, run: Run, events: list[str]
    ) -> None:
        project(
            pytester,
            """
            import pytest

            @pytest.mark.parametrize("number", range(3))
            def test_case(onnxgather_check, number):
                for case in [*built_in_cases(None)] * 2:
                    onnxgather_check(case)

            def test_skipped(onnxgather_check):
                onnxgather_check([*built_in_cases(None)][1], lane="elsewhere")
            """,
        )
        result = run("--lanes one,elsewhere", "--junit-xml=junit.xml", "-rs")
        result.assert_outcomes(passed=3, skipped=1)
        text = "elsewhere: NOT-RUN: a node ran on the CPU"
        result.stdout.fnmatch_lines(
            [
                "*= onnxgather: not run, but passed on another lane =*",
                text,
                "  test_own.py::test_case[[]0[]], and 2 more",
                "*= short test summary info =*",
                f"SKIPPED [[]1[]] test_own.py:*: {text}",
            ]
        )
        cases = ElementTree.parse("junit.xml").iter("testcase")
        properties = [
            [(each.get("name"), each.get("value")) for each in case.iter("property")]
            for case in cases
        ]
        assert properties == [[("onnxgather", text)]] * 3 + [[]]
        required = run("--lanes one,elsewhere --require elsewhere", "-k", "test_case")
        required.assert_outcomes(failed=3, deselected=1)
        known = run("--lanes one,elsewhere,known", "-k", "test_case", "-rx")
        known.assert_outcomes(xfailed=3, deselected=1)
        known.stdout.fnmatch_lines(
            [
                f"XFAIL test_own.py::test_case[[]0[]] - {text}",
                "known: KNOWN: It is odd. (https://example.com)",
            ],
            consecutive=True,
        )

    @pytest.mark.slow
    def test_workers_tell_what_a_lane_did_not_run(
        self, pytester: pytest.Pytester, run: Run
    ) -> None:
        without_cases_of_tests = """
            class NotGivenError(Exception):
                pass

            load_all = load

            def load(model, name):
                if name == "onnxgather_check":
                    raise NotGivenError("FLOAT32 is missing")
                return load_all(model, name)
        """
        planted(pytester.path, without_cases_of_tests)
        words = "--lanes cpu --adapter planted=planted.py"
        pytester.makeini(f"[pytest]\nonnxgather = {words}")
        project(pytester, ONE_TEST)
        result = run(None, "-n", "2")
        result.assert_outcomes(passed=1)
        reason = "the adapter of planted cannot pass the case on: FLOAT32 is missing"
        result.stdout.fnmatch_lines(
            [f"planted: NOT-RUN: {reason}", "  test_own.py::test_one"], consecutive=True
        )


SESSIONS = """
import numpy as np
import onnxgather as og
import onnxruntime
import pytest

def session_with(add, *arguments):
    options = onnxruntime.SessionOptions()
    add(options, *arguments)
    return onnxruntime.InferenceSession(MODEL, options)

def run(session, *words):
    session.run(None, {"words": np.array([words])})
"""

BAD_40 = (
    "Gather 'word_embedding' of 'keywords', clamp: 1 of 2 indices out of range, in 1"
    " run; the first: IndicesTensor[0,1] must be in [-32, 32), got 40"
)

NONE_RAN = (
    "onnxgather_in_range must see a gather run, but none ran on onnxgather's provider;"
    " onnxgather_in_range(options) adds it to SessionOptions, and providers= of"
    " InferenceSession takes it away"
)


class TestInRange:
    """The fixture fails a test in which a gather met an index out of range."""

    @pytest.fixture(autouse=True)
    def _is_built(self) -> None:
        if kernels.operators_library() is None:
            pytest.skip("the native kernels are not built")

    def write(self, pytester: pytest.Pytester, tests: str) -> None:
        """Write the tests of the project."""
        model = MODELS / "networks" / "keywords.onnx"
        text = f"{SESSIONS}\nMODEL = {str(model)!r}\n{textwrap.dedent(tests)}"
        pytester.makepyfile(test_own=text)

    def test_it_fails_and_names_the_gather_and_the_index(
        self, pytester: pytest.Pytester, run: Run
    ) -> None:
        self.write(
            pytester,
            """
            def test_bad(onnxgather_in_range):
                run(session_with(onnxgather_in_range), 3, 40)

            def test_good(onnxgather_in_range):
                run(session_with(onnxgather_in_range), 3, 31)

            def test_without():
                run(session_with(og.add_provider, "clamp"), 3, 40)
            """,
        )
        result = run()
        result.assert_outcomes(passed=2, failed=1)
        failure = result.outlines[result.outlines.index("") :]
        assert BAD_40 in failure
        assert not any("Error" in line for line in failure)

    def test_a_session_counts_for_the_test_that_runs_it(
        self, pytester: pytest.Pytester, run: Run
    ) -> None:
        self.write(
            pytester,
            """
            @pytest.fixture(scope="module")
            def session():
                return session_with(og.add_provider, "clamp")

            def test_first(session):
                run(session, 3, 40)

            @pytest.mark.usefixtures("onnxgather_in_range")
            def test_good(session):
                run(session, 3, 31)

            def test_bad(session, onnxgather_in_range):
                run(session, 3, 40)

            def test_good_again(session, onnxgather_in_range):
                run(session, 3, 31)
            """,
        )
        result = run(None, "-v")
        result.assert_outcomes(passed=3, failed=1)
        result.stdout.fnmatch_lines(["*::test_bad FAILED*"])

    def test_a_test_in_which_no_gather_ran_on_the_provider_fails(
        self, pytester: pytest.Pytester, run: Run
    ) -> None:
        self.write(
            pytester,
            """
            def test_none(onnxgather_in_range):
                session_with(onnxgather_in_range)

            def test_on_the_cpu(onnxgather_in_range):
                session = onnxruntime.InferenceSession(MODEL)
                run(session, 3, 31)
            """,
        )
        result = run()
        result.assert_outcomes(failed=2)
        assert result.outlines.count(NONE_RAN) == 2

    def test_under_another_policy_and_beside_another_failure(
        self, pytester: pytest.Pytester, run: Run
    ) -> None:
        self.write(
            pytester,
            """
            def test_zero(onnxgather_in_range):
                run(session_with(onnxgather_in_range, "zero"), 3, 40)

            def test_error(onnxgather_in_range):
                run(session_with(onnxgather_in_range, "error"), 3, 40)

            def test_assert(onnxgather_in_range):
                run(session_with(onnxgather_in_range), 3, 40)
                assert 1 == 2

            @pytest.mark.xfail(strict=True)
            def test_expected(onnxgather_in_range):
                run(session_with(onnxgather_in_range), 3, 40)
            """,
        )
        result = run()
        result.assert_outcomes(failed=3, xfailed=1)
        lines = result.outlines
        for policy in ("zero", "error", "clamp"):
            assert BAD_40.replace("clamp", policy) in lines
        result.stdout.fnmatch_lines(
            ["E * assert 1 == 2", "*- Captured onnxgather call -*", "Gather '*"]
        )

    def test_it_names_ten_gathers(self, pytester: pytest.Pytester, run: Run) -> None:
        self.write(
            pytester,
            """
            from onnx import parser

            def test_many(onnxgather_in_range):
                numbers = range(12)
                nodes = [f"y{k} = Gather<axis=0>(data, ids{k})" for k in numbers]
                inputs = ", ".join(f"int64[1] ids{k}" for k in numbers)
                outputs = ", ".join(f"float[1] y{k}" for k in numbers)
                graph = f"many (float[4] data, {inputs}) => ({outputs})"
                head = '<ir_version: 8, opset_import: ["": 17]>'
                model = parser.parse_model(f"{head} {graph} {{ {' '.join(nodes)} }}")
                options = onnxruntime.SessionOptions()
                onnxgather_in_range(options)
                content = model.SerializeToString()
                session = onnxruntime.InferenceSession(content, options)
                feed = {f"ids{k}": np.array([4]) for k in numbers}
                session.run(None, {"data": np.zeros(4, np.float32), **feed})
            """,
        )
        # Where the variable CI is set, pytest's summary repeats the whole message.
        result = run(None, "-rN")
        result.assert_outcomes(failed=1)
        named = [line for line in result.outlines if line.startswith("Gather 'y")]
        assert len(named) == 10
        assert "and 2 gathers more" in result.outlines

    def test_without_the_library_its_tests_are_errors(
        self, pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
        self.write(pytester, "def test_one(onnxgather_in_range): pass")
        result = run()
        result.assert_outcomes(errors=1)
        assert "the native kernels must be there, but ONNXGATHER_NATIVE is 0" in (
            result.outlines
        )

    @pytest.mark.slow
    def test_each_process_of_xdist_counts_its_own(
        self, pytester: pytest.Pytester
    ) -> None:
        self.write(
            pytester,
            """
            @pytest.mark.parametrize("word", [31, 40] * 4)
            def test_word(onnxgather_in_range, word):
                run(session_with(onnxgather_in_range), 3, word)
            """,
        )
        result = pytester.runpytest_subprocess(*PLUGIN, "-n", "2")
        result.assert_outcomes(passed=4, failed=4)
        assert result.outlines.count(BAD_40) == 4
