"""Models that onnxgather wrote: every command reads them as what they were made from,
and judges the file itself."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from command_line import (
    DATA_4X3,
    DESC,
    SIGNED_DESC,
    error_of,
    files,
    json_of,
    outcome,
    output_of,
    program,
    read_bytes,
    read_json,
    succeed,
    write_json,
)
from fake_directml import done, fake_folder
from folders import MODELS
from messages import rows_of
from onnx import TensorProto, helper, numpy_helper, version_converter
from own_models import merged_with_relu, stamped, with_wrong_bound
from rings import one_quick_in
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.corpus import random_cases
from onnxgather.checking.results import read_report
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.model.own import drop_entries
from onnxgather.core.model.values import load_model
from onnxgather.core.options import OutOfRange, Target
from onnxgather.core.programs.loading import load

POLICIES: tuple[OutOfRange, ...] = get_args(OutOfRange)
NATIVE: list[Target] = [
    target for target in get_args(Target) if target != "native" or operators_library()
]
"""The targets, but for the native one where its kernels are not compiled."""
DRAWN = ("both ends of each axis", "random bits", "wild indices")
OF_ERROR = ("both ends of each axis", "random bits", "extreme data")
TOLD = f"without data, so three cases are drawn: {', '.join(DRAWN)}"
ANOTHER = "its metadata of onnxgather are of another graph"
AS_ANY = "so it is read as any ONNX model"

stand_in = pytest.mark.skipif(os.name == "nt", reason="the stand-in host is a script")


def save(model: onnx.ModelProto, path: str = "m.onnx") -> str:
    Path(path).write_bytes(model.SerializeToString())
    return path


def ours(policy: OutOfRange = "clamp", target: Target = "portable") -> str:
    """Write the model of DESC; return its path."""
    return save(og.to_onnx(DESC, policy, target))


def first_line(line: str, told: str = "") -> str:
    """Return the first line of a command that succeeds and warns of this alone."""
    code, text, error = outcome(line)
    assert (code, error) == (0, told)
    return text.splitlines()[0]


def inputs(indices: Any = ((2, 7),), **names: str) -> str:
    """Write the inputs of DESC; return the option that gives them."""
    data = names.get("InputTensor", "InputTensor")
    places = names.get("IndicesTensor", "IndicesTensor")
    arrays: dict[str, Any] = {data: DATA_4X3, places: np.array(indices, np.uint32)}
    np.savez("in.npz", **arrays)
    return "--inputs in.npz"


def without_head(text: str) -> list[str]:
    """The lines of a check without those on the machine and the lanes."""
    return text.partition("\n\n")[2].splitlines()


class TestRoundTrip:
    """What `convert` writes is read by every command, with no option given."""

    @pytest.mark.parametrize(
        ("policy", "target"), one_quick_in(20, [*product(POLICIES, NATIVE)])
    )
    def test_the_programs_of_the_repository(
        self, policy: OutOfRange, target: Target
    ) -> None:
        programs = sorted(map(str, MODELS.glob("*.json")))
        assert len(programs) == 16
        made = outcome(
            *("convert", *programs, "-o", "."),
            *("--target", target, "--out-of-range", policy),
        )
        assert made[0] == 0
        models = files()
        assert len(models) == 16

        code, text, error = outcome("certify", *models)
        first, *lines, last = text.splitlines()
        assert (code, error) == (0, "")
        assert first.startswith(f"policy {policy}: ")
        for model, line in zip(models, lines, strict=True):
            # For WebGPU's provider, there may be a condition.
            assert line.startswith(f"{model}: {policy}: proved"), line
        assert last == "16 proved, 0 refuted, 0 undecided"

        code, text, error = outcome("check", *models, "--json=report.json")
        report = read_report(read_bytes("report.json"))
        names = OF_ERROR if policy == "error" else DRAWN
        wanted = [f"{model}: {name}" for model, name in product(models, names)]
        assert code == 0
        assert [case.name for case in report.cases] == wanted
        assert {case.results[0].state for case in report.cases} == {"PASS"}
        assert {(case.out_of_range, case.runs_file) for case in report.cases} == {
            (policy, True)
        }
        drawn = f"without data, so three cases are drawn: {', '.join(names)}"
        lines = [f"{model}: {drawn}" for model in models]
        assert error.splitlines() == [*lines, "written: report.json"]
        assert "NOTE      16 models: cpu ran the files themselves" in text

        text = output_of("show", *models, "--json")
        for shown, path in zip(json.loads(text), programs, strict=True):
            (gather,) = shown["dispatchables"].values()
            (source,) = load(path).dispatches
            assert gather["descriptor"] == og.to_dict(source.descriptor)
            assert (gather["target"], gather["out_of_range"]) == (target, policy)

        for model, path in zip(models, programs, strict=True):
            (source,) = load(path).dispatches
            self.check_run_and_explain(model, source, policy)

    def check_run_and_explain(
        self, model: str, source: Any, policy: OutOfRange
    ) -> None:
        """Check that run prints the reference's elements, and explain their places."""
        arrays = {"InputTensor": source.data, "IndicesTensor": source.indices}
        np.savez("in.npz", **arrays)
        output = og.reference(
            source.descriptor, source.data, source.indices, policy
        ).reshape(-1)
        text = output_of("run", model, "--inputs", "in.npz", "--numbers")
        values = text.removeprefix("Resource 'OutputTensor': ").rstrip("\n").split(", ")
        assert len(values) == output.size
        assert np.allclose(np.array(values, float), output.astype(float), rtol=1e-4)

        rank = source.descriptor.output_tensor.dimension_count
        at = ",".join(["0"] * rank)
        text = output_of("explain", model, "--at", at)
        assert text.startswith(f"output[{at}] = input[")
        assert "IndicesTensor[" in text
        text = output_of("explain", model, "--at", at, "--inputs", "in.npz")
        assert text.startswith(f"output[{at}] = input[")

    def test_repro_finds_nothing_wrong(self) -> None:
        ours()
        assert outcome("repro m.onnx -o out") == (
            0,
            "3 cases pass on lane cpu: nothing to reproduce\n",
            f"m.onnx: {TOLD}\n",
        )
        assert not Path("out").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(2))
    def test_drawn_descriptors_of_all_operators(self, seed: int) -> None:
        """100 descriptors, each under a policy and for a target by turns."""
        turns = [*product(POLICIES, NATIVE)]
        sources: dict[str, tuple[og.Descriptor, OutOfRange, Target]] = {}
        operators: set[str] = set()
        for number, case in enumerate(islice(random_cases(100, seed=seed), 100)):
            policy, target = turns[number % len(turns)]
            model = og.to_onnx(case.descriptor, policy, target)
            sources[save(model, f"{number:04}.onnx")] = case.descriptor, policy, target
            operators.add(case.operator)
        assert len(operators) == 4
        for path, (desc, policy, target) in sources.items():
            read = load(path)
            (dispatch,) = read.dispatches
            assert (dispatch.descriptor, dispatch.out_of_range) == (desc, policy), path
            assert og.to_dict(dispatch.descriptor) == og.to_dict(desc)
            assert read.model is not None
            assert read.model.target == target

        code, text, _ = outcome("certify", *sources)
        *lines, last = text.splitlines()[len(POLICIES) :]
        assert code == 0
        assert [line for line in lines if ": proved" not in line] == []
        assert last == "100 proved, 0 refuted, 0 undecided"

        code, text, _ = outcome("check", *sources, "--json")
        report = read_report(text.encode())
        assert len(report.cases) == 300
        wrong = [
            (case.name, case.results[0].state, case.results[0].reason)
            for case in report.cases
            if case.results[0].state != "PASS"
        ]
        assert wrong == []
        assert code == 0

        shown = json_of("show", *sources, "--json")
        for one, (desc, policy, target) in zip(shown, sources.values(), strict=True):
            (gather,) = one["dispatchables"].values()
            assert gather["descriptor"] == og.to_dict(desc)
            assert (gather["target"], gather["out_of_range"]) == (target, policy)


class TestNames:
    """Models whose inputs have other names."""

    @pytest.mark.parametrize(
        ("names", "options"),
        [
            (
                {"InputTensor": "g/InputTensor", "IndicesTensor": "g/IndicesTensor"},
                {"prefix": "g/"},
            ),
            (
                {"InputTensor": "x", "IndicesTensor": "i"},
                {
                    "names": {
                        "InputTensor": "x",
                        "IndicesTensor": "i",
                        "OutputTensor": "y",
                    }
                },
            ),
        ],
        ids=["prefix", "names"],
    )
    @pytest.mark.parametrize("policy", one_quick_in(2, ["clamp", "error"]))
    def test_every_command_takes_them(
        self, names: dict[str, str], options: dict[str, Any], policy: OutOfRange
    ) -> None:
        save(og.to_onnx(DESC, policy, **options))
        (dispatch,) = load("m.onnx").dispatches
        assert dispatch.descriptor == DESC
        assert output_of("certify m.onnx").splitlines()[1:] == [
            f"m.onnx: {policy}: proved",
            "1 proved, 0 refuted, 0 undecided",
        ]
        text = succeed("check m.onnx")
        assert "cpu: 3 cases, 3 PASS" in text
        given = inputs([[2, 0]], **names)
        assert (
            output_of(f"run m.onnx {given}")
            == "Resource 'OutputTensor': 2, 0, 5, 3, 8, 6, 11, 9\n"
        )
        assert (
            output_of(f"explain m.onnx --at 1,1 {given}")
            == "output[1,1] = input[1, indices[1]] = input[1, 0] = 3\n"
        )
        text = output_of(f"check m.onnx {given}")
        assert "m.onnx: the given inputs  PASS" in text
        # A refusal counts beside an output for valid indices, which has the names too.
        text = output_of(f"check m.onnx {inputs(**names)}")
        assert "cpu: 1 case, 1 PASS" in text

    def test_inputs_of_other_names_are_refused(self) -> None:
        save(og.to_onnx(DESC, prefix="g/"))
        for command in ("run", "explain", "check"):
            assert error_of(f"{command} m.onnx {inputs()}") == (
                "m.onnx: the given inputs hold 'InputTensor', but the"
                " model's inputs are 'g/InputTensor', 'g/IndicesTensor'; did you"
                ' mean "g/InputTensor"?'
            )


class TestRun:
    def test_it_asks_for_inputs(self) -> None:
        ours()
        assert (
            error_of("run m.onnx")
            == "--inputs FILE.npz must come with m.onnx, which has no data"
        )

    @pytest.mark.parametrize(
        ("policy", "printed", "told"),
        [
            (
                "clamp",
                "2, 2, 5, 5, 8, 8, 11, 11",
                (
                    "3 of 8 output elements differ, first OutputTensor[0,1]: 2 under"
                    " clamp, 7 under directml"
                ),
            ),
            (
                "zero",
                "2, 0, 5, 0, 8, 0, 11, 0",
                (
                    "4 of 8 output elements differ, first OutputTensor[0,1]: 0 under"
                    " zero, 7 under directml"
                ),
            ),
            (
                "directml",
                "2, 7, 5, 10, 8, 11, 11, 11",
                (
                    "3 of 8 output elements differ, first OutputTensor[0,1]: 7 under"
                    " directml, 2 under clamp"
                ),
            ),
        ],
    )
    def test_it_runs_as_it_is(
        self, policy: OutOfRange, printed: str, told: str
    ) -> None:
        ours(policy)
        assert outcome(f"run m.onnx {inputs()}") == (
            0,
            f"Resource 'OutputTensor': {printed}\n",
            (
                "m.onnx: indices out of range: 1 of 2, first IndicesTensor[0,1] = 7;"
                f" {told}\n"
            ),
        )

    def test_an_error_is_a_finding(self) -> None:
        ours("error")
        assert (
            error_of(f"run m.onnx {inputs()}", code=1)
            == "m.onnx: IndicesTensor[0,1] must be in [0, 3), got 7"
        )

    @pytest.mark.parametrize(
        ("options", "rule"),
        rows_of("""
--target cpu
--target cpu must not come with m.onnx, as a model runs as it is

--out-of-range zero
--out-of-range zero must not come with m.onnx, as a model runs as it is

--provider directml-dll
--provider directml-dll must come with a program that has data; onnxgather check m.onnx
--lanes directml-dll runs a descriptor alone
"""),
    )
    def test_options_for_another_model_are_refused(
        self, options: str, rule: str
    ) -> None:
        ours()
        assert error_of(f"run m.onnx {inputs()} {options}") == rule


class TestExplain:
    def test_names_stand_for_indices(self) -> None:
        ours()
        assert (
            output_of("explain m.onnx --at 1,0")
            == "output[1,0] = input[1, IndicesTensor[0,0]]\n"
        )
        text = output_of("explain m.onnx")
        assert text.splitlines() == [
            f"output[{row},{column}] = input[{row}, IndicesTensor[0,{column}]]"
            for row in range(4)
            for column in range(2)
        ]
        assert json_of("explain m.onnx --at 1,0 --json") == {
            "text": "output[1,0] = input[1, IndicesTensor[0,0]]",
            "at": [1, 0],
            "index_places": [[0, 0]],
        }

    def test_inputs_give_the_elements_of_the_model_and_of_directml(self) -> None:
        ours("zero")
        assert outcome(f"explain m.onnx --at 1,1 {inputs()}") == (
            0,
            (
                "output[1,1] = input[1, indices[1]] = input[1, 7] = 0, 10 under"
                " directml (index 7 is out of range of 3)\n"
            ),
            (
                "m.onnx: the given inputs: indices out of range: 1 of 2, first"
                " IndicesTensor[0,1] = 7; 4 of 8 output elements differ, first"
                " OutputTensor[0,1]: 0 under zero, 7 under directml\n"
            ),
        )

    def test_a_place_outside_is_a_sentence(self) -> None:
        ours()
        assert error_of("explain m.onnx --at 1,9") == (
            "Invalid value for --at: at must have 2 coordinates within"
            " OutputTensor.Sizes [4, 2], got [1, 9]"
        )


class TestCheckOptions:
    @pytest.mark.parametrize(
        ("options", "told"),
        [
            (["--target", "cpu"], "--target cpu"),
            (["--opset", "18"], "--opset 18"),
            (["--wrap"], "--wrap"),
            (["--lanes", "cpu@native"], "the lane cpu@native"),
            (["--lane", f"cpu@native={sys.executable}"], "the lane cpu@native"),
        ],
    )
    def test_options_for_another_model_are_refused(
        self, options: list[str], told: str
    ) -> None:
        ours()
        program("p.json")
        code, text, error = outcome("check p.json m.onnx", *options)
        assert (code, text) == (2, "")
        assert error.splitlines() == [
            "Usage: onnxgather check [OPTIONS] [PATH]...",
            "Try 'onnxgather check --help' for help.",
            "",
            f"Error: {told} must not come with m.onnx, as a model runs as it is",
        ]

    @pytest.mark.parametrize(
        ("option", "told"),
        [("--wrap", "--wrap"), ("--target cpu", "--target cpu")],
    )
    def test_repro_refuses_them_too(self, option: str, told: str) -> None:
        ours()
        assert (
            error_of(f"repro m.onnx -o out {option}")
            == f"{told} must not come with m.onnx, as a model runs as it is"
        )

    @pytest.mark.parametrize("option", ["--target", "--model"])
    def test_certify_proves_the_file_itself(self, option: str) -> None:
        ours()
        value = "cpu" if option == "--target" else save(og.to_onnx(DESC), "o.onnx")
        assert error_of(f"certify m.onnx {option}", value) == (
            f"{option} must not come with m.onnx, as the file itself is proved"
        )

    def test_certify_takes_policy_and_target_of_the_model_of_an_option(self) -> None:
        ours("zero", "cpu")
        assert output_of("certify", program("p.json"), "--model", "m.onnx") == (
            "policy zero: an index out of range gives 0\n"
            "p.json: $.dispatchables.gather: zero, m.onnx: proved\n"
            "1 proved, 0 refuted, 0 undecided\n"
        )

    def test_another_policy_is_asked_of_the_file(self) -> None:
        ours()
        code, text, _ = outcome("check m.onnx --out-of-range zero")
        assert code == 1
        assert "m.onnx: wild indices            DIFF" in text
        code, text, _ = outcome("certify m.onnx --out-of-range zero")
        assert code == 1
        assert text.splitlines()[1].startswith("m.onnx: zero: refuted: where ")

    def test_cases_are_listed_and_chosen_by_name(self) -> None:
        ours()
        assert outcome("check m.onnx --list") == (
            0,
            "".join(f"m.onnx: {name}\n" for name in DRAWN),
            f"m.onnx: {TOLD}\n",
        )
        code, text, error = outcome("check --case", "m.onnx: random bits")
        assert (code, error) == (0, f"m.onnx: {TOLD}\n")
        assert without_head(text) == [
            "                     cpu",
            "m.onnx: random bits  PASS",
            "",
            "NOTE      m.onnx: cpu ran the file itself",
            "",
            "cpu: 1 case, 1 PASS",
        ]


def fake() -> str:
    """A model whose last column cannot be reached, and whose digest is made anew."""
    return save(stamped(with_wrong_bound(og.to_onnx(DESC))))


class TestChangedWithItsDigest:
    """A clamping constant was changed by hand, and the digest was made anew."""

    def test_check_finds_it(self) -> None:
        code, text, error = outcome(f"check {fake()}")
        assert (code, error) == (1, f"m.onnx: {TOLD}\n")
        lines = without_head(text)
        assert lines[:5] == [
            "                                cpu",
            "m.onnx: both ends of each axis  DIFF",
            "m.onnx: random bits             DIFF",
            "m.onnx: wild indices            DIFF",
            "",
        ]
        assert lines[-6:] == [
            "NOTE      m.onnx: cpu ran the file itself",
            "",
            "cpu: 3 cases, 3 DIFF",
            "",
            "3 findings",
            "3 cases on 1 lane: 0 agree bit for bit, 3 had wrong elements.",
        ]

    def test_certify_refutes_it(self) -> None:
        code, text, error = outcome(f"certify {fake()}")
        assert (code, error) == (1, "")
        first, line, last = text.splitlines()
        assert first == "policy clamp: an index out of range is clamped"
        assert line.startswith("m.onnx: clamp: refuted: where IndicesTensor is ")
        assert last == "0 proved, 1 refuted, 0 undecided"

    def test_check_of_a_program_passes_beside_it(self) -> None:
        code, text, _ = outcome(f"check {fake()}", program("p.json"))
        assert code == 1
        assert "p.json: $.commands[0] (gather)  PASS" in text

    def test_the_line_again_works_as_it_is_printed(self) -> None:
        text = outcome(f"check {fake()}")[1]
        commands = [
            line.partition("again: ")[2]
            for line in text.splitlines()
            if "again: " in line
        ]
        assert commands[0] == (
            "onnxgather check --case 'm.onnx: both ends of each axis' --lanes cpu"
            " --out-of-range clamp"
        )
        for command in commands:
            _, *words = shlex.split(command)
            code, again, _ = outcome(*words)
            assert code == 1
            assert "cpu: 1 case, 1 DIFF" in again

    def test_the_line_again_works_with_inputs(self) -> None:
        given = inputs([[2, 0]])
        code, text, error = outcome(f"check {fake()} {given}")
        assert (code, error) == (1, "")
        (command,) = [
            line.partition("again: ")[2]
            for line in text.splitlines()
            if "again: " in line
        ]
        assert command == (
            "onnxgather check m.onnx --inputs INPUTS.npz --case 'm.onnx: the given"
            " inputs' --lanes cpu --out-of-range clamp"
        )
        _, *words = shlex.split(command.replace("INPUTS.npz", "in.npz"))
        assert outcome(*words)[0] == 1

    def check_folder(self, folder: str) -> None:
        """Check that the script of a repro shows the difference of the file."""
        made = Path(folder)
        assert (made / "model.onnx").read_bytes() == read_bytes("m.onnx")
        ran = subprocess.run(
            [sys.executable, made / "repro.py"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 1, ran.stderr
        assert "\nIt differs: 4 of 8 elements, first OutputTensor[0," in ran.stdout
        issue = (made / "ISSUE.md").read_text(encoding="utf-8")
        assert issue.startswith(
            "# A model returns wrong elements for Gather of FLOAT32 data by UINT32"
            " indices on CPUExecutionProvider\n"
        )
        words = " ".join(issue.split())
        assert (
            "`model.onnx` is a file as it was given. Its metadata say that it was made"
            " from this: ONNX's `Gather` with `axis=1`"
        ) in words
        assert (
            "The model is wrong, or the provider is: `onnxgather certify model.onnx`"
            " says whether the model is right."
        ) in words
        code, text, _ = outcome("certify", f"{folder}/model.onnx")
        assert (code, "refuted: " in text) == (1, True)

    def test_repro_shows_it(self) -> None:
        assert outcome(f"repro {fake()} -o out") == (
            0,
            (
                "out: A model returns wrong elements for Gather of FLOAT32 data by"
                " UINT32 indices on CPUExecutionProvider; repro.py shows it\n"
            ),
            f"m.onnx: {TOLD}\n",
        )
        self.check_folder("out")

    @pytest.mark.slow
    def test_repro_takes_a_case_or_inputs(self) -> None:
        fake()
        for given in (("--case", "wild indices"), inputs([[2, 2]]).split()):
            text = succeed("repro m.onnx -o out", *given)
            assert text.endswith("; repro.py shows it\n")
        assert output_of(f"repro m.onnx -o out {inputs([[1, 0]])}") == (
            "case 'm.onnx: the given inputs' passes on lane cpu: nothing to reproduce\n"
        )
        assert (
            error_of(f"repro m.onnx -o out --case x {inputs()}")
            == "--case must come without --inputs"
        )

    @pytest.mark.slow
    def test_repro_of_the_report_shows_it(self) -> None:
        fake()
        assert outcome("check --case", "m.onnx: random bits", "--json=r.json")[0] == 1
        content = read_json("r.json")
        (entry,) = content["cases"]
        assert (entry["file"], entry["command"]) == ("m.onnx", "random bits")
        assert entry["runs_file"]
        # The report is enough: the model is in it.
        kept = read_bytes("m.onnx")
        os.remove("m.onnx")
        assert output_of("repro r.json -o out") == (
            "out: A model returns wrong elements for Gather of FLOAT32 data by"
            " UINT32 indices on CPUExecutionProvider; repro.py shows it\n"
        )
        Path("m.onnx").write_bytes(kept)
        self.check_folder("out")
        assert (
            error_of(f"repro r.json -o out {inputs()}")
            == "--inputs must come without a report, as its cases have theirs"
        )

    @pytest.mark.slow
    def test_a_report_of_several_findings_asks_for_a_case(self) -> None:
        fake()
        assert outcome("check m.onnx --json=r.json")[0] == 1
        names = ", ".join(f"'m.onnx: {name}'" for name in DRAWN)
        assert (
            error_of("repro r.json -o out")
            == f"r.json: case must name one, got {names}"
        )
        case = ("--case", "m.onnx: random bits")
        succeed("repro r.json -o out", *case)
        self.check_folder("out")

    def test_a_report_with_another_model_is_refused(self) -> None:
        fake()
        case = ("--case", "m.onnx: random bits")
        assert outcome("check", *case, "--json=r.json")[0] == 1
        content = read_json("r.json")
        content["cases"][0]["evidence"]["model"] = "AAAA"
        write_json("r.json", content)
        assert error_of("repro r.json -o out").startswith(
            "r.json: case 'm.onnx: random bits': "
        )

    @pytest.mark.skipif(not operators_library(), reason="needs the compiled library")
    def test_a_native_model_is_run_with_our_library(self) -> None:
        model = og.to_onnx(SIGNED_DESC, target="native")
        save(stamped(model))
        text = succeed("check m.onnx --json")
        report = read_report(text.encode())
        nodes = {case.results[0].nodes for case in report.cases}
        assert nodes == {("GATHER",)}

    @pytest.mark.skipif(not operators_library(), reason="needs the compiled library")
    def test_a_changed_body_is_found_though_the_kernel_is_right(self) -> None:
        model = og.to_onnx(SIGNED_DESC, target="native")
        constants = {
            node.output[0]: node.attribute[0].t
            for node in model.functions[0].node
            if node.op_type == "Constant" and node.attribute[0].name == "value"
        }
        (bound,) = [
            tensor
            for tensor in constants.values()
            if not tensor.dims and numpy_helper.to_array(tensor) == 2
        ]
        one = np.ones((), numpy_helper.to_array(bound).dtype)
        bound.CopyFrom(numpy_helper.from_array(one, bound.name))
        save(stamped(model))
        code, text, _ = outcome("check m.onnx")
        assert code == 1
        assert "m.onnx: both ends of each axis  DIFF" in text
        assert outcome("certify m.onnx")[0] == 1

    @pytest.mark.skipif(not operators_library(), reason="needs the compiled library")
    def test_changed_attributes_of_our_node_are_not_proved(self) -> None:
        model = og.to_onnx(SIGNED_DESC, target="native")
        (node,) = model.graph.node
        (policy,) = [each for each in node.attribute if each.name == "policy"]
        policy.s = b"zero"
        save(stamped(model))
        code, text, _ = outcome("check m.onnx")
        assert code == 1
        assert "m.onnx: wild indices            DIFF" in text
        text = output_of("certify m.onnx")
        assert text.splitlines()[1] == (
            "m.onnx: clamp: undecided: the body of onnxgather's own node is proved, and"
            " its kernel reads attributes that are not those of the descriptor"
        )

    def test_inputs_in_the_other_order_do_not_fit(self) -> None:
        model = og.to_onnx(SIGNED_DESC)
        first, second = (onnx.ValueInfoProto(), onnx.ValueInfoProto())
        first.CopyFrom(model.graph.input[0])
        second.CopyFrom(model.graph.input[1])
        del model.graph.input[:]
        model.graph.input.extend([second, first])
        save(stamped(model))
        for command in ("check", "certify", "show"):
            assert error_of(f"{command} m.onnx") == (
                "m.onnx: its metadata: the model's inputs must be in the order"
                " InputTensor, IndicesTensor, got 'IndicesTensor', 'InputTensor'"
            )

    def test_a_model_with_external_data_counts_as_one_of_others(self) -> None:
        model = og.to_onnx(DESC)
        onnx.save(  # pyright: ignore[reportUnknownMemberType]
            model, "m.onnx", save_as_external_data=True, size_threshold=0, location="w"
        )
        save(stamped(load_model("m.onnx")))
        text = succeed("certify m.onnx")
        assert text.splitlines()[1].startswith("m.onnx: clamp: undecided: ONNX refuses")
        assert error_of("check m.onnx") == (
            "m.onnx: the inputs must hold an array for each input of the model,"
            " got none for 'InputTensor', 'IndicesTensor'; give --inputs FILE.npz"
        )


class TestChangedWithoutDigest:
    """A model of ours that was changed counts as one of others."""

    def changed(self) -> str:
        return save(with_wrong_bound(og.to_onnx(DESC)))

    def test_certify_alone_judges_it_by_its_descriptor(self) -> None:
        code, text, error = outcome(f"certify {self.changed()}")
        assert (code, error) == (
            1,
            f"m.onnx: {ANOTHER}; it is judged by the descriptor in them\n",
        )
        assert text.splitlines()[1].startswith("m.onnx: clamp: refuted: where ")
        # One that means its descriptor nevertheless is proved.
        model = og.to_onnx(DESC, "zero")
        model.graph.node[0].name = "another"
        save(model)
        assert outcome("certify m.onnx") == (
            0,
            (
                "policy zero: an index out of range gives 0\n"
                "m.onnx: zero: proved\n"
                "1 proved, 0 refuted, 0 undecided\n"
            ),
            f"m.onnx: {ANOTHER}; it is judged by the descriptor in them\n",
        )

    def test_show_shows_its_nodes(self) -> None:
        assert (
            first_line(f"show {self.changed()}", f"m.onnx: {ANOTHER}, {AS_ANY}\n")
            == "m.onnx: node 'OutputTensor'"
        )

    def test_check_takes_its_nodes(self) -> None:
        told = f"m.onnx: {ANOTHER}, {AS_ANY}\n"
        assert outcome(f"check {self.changed()}") == (
            2,
            "",
            (
                f"{told}Error: m.onnx: the inputs must hold an array for each input of"
                " the model, got none for 'InputTensor', 'IndicesTensor'; give"
                " --inputs FILE.npz\n"
            ),
        )
        code, text, error = outcome(f"check m.onnx {inputs()}")
        assert (code, error) == (0, told)
        assert "m.onnx: main graph: node 'OutputTensor'  PASS" in text

    def test_explain_and_convert_take_its_nodes(self) -> None:
        told = f"m.onnx: {ANOTHER}, {AS_ANY}\n"
        code, text, error = outcome(f"explain {self.changed()} --at 0,0 {inputs()}")
        assert (code, error) == (0, told)
        assert text == "output[0,0] = input[0, indices[0]] = input[0, 1] = 1\n"
        code, text, error = outcome("convert m.onnx -o d")
        assert (code, error.splitlines()[0]) == (0, told.rstrip())
        assert text.splitlines()[0] == "m.onnx -> d/m.001_OutputTensor.onnx"

    def test_run_and_repro_say_what_they_take(self) -> None:
        assert error_of(f"run {self.changed()} {inputs()}") == (
            "m.onnx: must be a model that onnxgather wrote from a"
            " descriptor, got one whose metadata of onnxgather are of another"
            " graph; onnxgather audit (in Python og.audit) lists its gathers, and"
            " onnxgather extract writes programs of them"
        )
        assert outcome("repro m.onnx -o out") == (
            2,
            "",
            (
                f"m.onnx: {ANOTHER}, {AS_ANY}\n"
                "Error: m.onnx: an ONNX model that onnxgather did not write must come"
                " with --node, got none\n"
            ),
        )

    def test_a_node_that_is_asked_for_is_one_of_the_graph(self) -> None:
        """Of a model of ours, too: then nothing is said of its metadata."""
        ours()
        text = output_of("show m.onnx --node OutputTensor")
        assert text.splitlines()[0] == "m.onnx: node 'OutputTensor'"
        assert "IndicesTensor    INT32 [1, 2]" in text


class TestOthers:
    def test_a_network_of_ours_and_a_relu_is_read_as_any_model(self) -> None:
        save(merged_with_relu(og.to_onnx(DESC)))
        told = f"m.onnx: {ANOTHER}, {AS_ANY}\n"
        assert first_line("show m.onnx", told) == "m.onnx: node 'OutputTensor'"
        code, text, error = outcome(f"check m.onnx {inputs()}")
        assert (code, error) == (0, told)
        assert "m.onnx: main graph: node 'OutputTensor'  PASS" in text
        # Its Relu is no part of the descriptor.
        assert outcome("certify m.onnx") == (
            0,
            (
                "policy clamp: an index out of range is clamped\n"
                "m.onnx: clamp: undecided: the operator Relu\n"
                "0 proved, 0 refuted, 1 undecided\n"
            ),
            f"m.onnx: {ANOTHER}; it is judged by the descriptor in them\n",
        )

    def test_metadata_of_another_descriptor_name_the_file(self) -> None:
        other = og.to_dict(
            descriptor("GATHER: FLOAT32 5x3, UINT32 1x2, FLOAT32 5x2, 1, 1")
        )
        save(stamped(og.to_onnx(DESC), descriptor=other))
        for command in every_command():
            assert error_of(command) == (
                "m.onnx: its metadata: the model's 'InputTensor' must be FLOAT32"
                " [5, 3], as InputTensor of the descriptor is, got FLOAT32 [4, 3]"
            ), command

    def test_a_policy_that_is_not_the_model_s_is_refuted(self) -> None:
        save(stamped(og.to_onnx(DESC), out_of_range="zero"))
        code, text, error = outcome("certify m.onnx")
        assert (code, error) == (1, "")
        assert text.splitlines()[1].startswith("m.onnx: zero: refuted: where ")
        code, text, _ = outcome("check m.onnx")
        assert (code, "m.onnx: wild indices            DIFF" in text) == (1, True)

    @pytest.mark.parametrize(
        "fields",
        [{"out_of_range": "clap"}, {"target": "gpu"}, {"descriptor": []}],
        ids=repr,
    )
    def test_metadata_that_cannot_be_read_are_told(
        self, fields: dict[str, Any]
    ) -> None:
        save(stamped(og.to_onnx(DESC), **fields))
        told = f"m.onnx: its metadata of onnxgather cannot be read, {AS_ANY}\n"
        assert first_line("show m.onnx", told) == "m.onnx: node 'OutputTensor'"
        assert outcome("certify m.onnx") == (
            0,
            (
                "policy error: an index out of range is an error\n"
                "m.onnx: node 'OutputTensor': error, portable: proved\n"
                "1 proved, 0 refuted, 0 undecided\n"
            ),
            told,
        )

    def test_a_native_model_without_its_functions_says_so(self) -> None:
        save(version_converter.convert_version(og.to_onnx(DESC, target="native"), 18))
        told = f"m.onnx: {ANOTHER}, {AS_ANY}\n"
        sentence = "Error: m.onnx: the model must have a gather, got none\n"
        assert outcome("show m.onnx") == (2, "", told + sentence)
        assert outcome("certify m.onnx") == (
            0,
            (
                "policy clamp: an index out of range is clamped\n"
                "m.onnx: clamp: undecided: the operator org.onnxgather.GATHER\n"
                "0 proved, 0 refuted, 1 undecided\n"
            ),
            f"m.onnx: {ANOTHER}; it is judged by the descriptor in them\n",
        )

    def test_a_model_without_metadata_is_read_without_a_word(self) -> None:
        model = og.to_onnx(DESC)
        drop_entries(model)
        assert first_line(f"show {save(model)}") == "m.onnx: node 'OutputTensor'"

    def test_a_name_that_looks_like_our_key_is_no_entry(self) -> None:
        """The file is read for the key; only metadata have it."""
        node = helper.make_node("Gather", ["onnxgather.x", "i"], ["y"], axis=0)
        values = [
            helper.make_tensor_value_info("onnxgather.x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]),
        ]
        graph = helper.make_graph([node], "g", values[:2], values[2:])
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        )
        assert first_line(f"show {save(model)}") == "m.onnx: node 'y'"


def every_command() -> Sequence[str]:
    """Return the line of each command that reads a model, with what it needs."""
    inputs()
    return """check m.onnx
certify m.onnx
show m.onnx
explain m.onnx --at 0,0
run m.onnx --inputs in.npz
repro m.onnx -o out""".splitlines()


def test_the_whole_of_a_program_names_its_program() -> None:
    succeed("convert", program("p.json"), "--whole", "-o", "m.onnx")
    for command in every_command():
        assert error_of(command) == (
            "m.onnx: the model must be of one descriptor, got the whole program"
            " 'p.json'; give the program itself"
        ), command
    assert not Path("out").exists()


def test_a_large_model_is_checked_with_inputs_alone() -> None:
    large = descriptor(f"GATHER: FLOAT32 {2**23}x1, UINT32 1x2, FLOAT32 2x1, 0, 1")
    save(og.to_onnx(large))
    sentence = (
        "m.onnx: the tensors must have at most 33,554,432 bytes to be drawn;"
        " --inputs FILE.npz gives data"
    )
    assert error_of("check m.onnx") == sentence
    assert error_of("repro m.onnx -o out") == sentence
    assert (
        output_of("explain m.onnx --at 1,0")
        == "output[1,0] = input[IndicesTensor[0,1], 0]\n"
    )


@stand_in
class TestDirectMLItself:
    """DirectML.dll, behind a stand-in for its host, runs the descriptor of a file."""

    def lane(self, folder: Path, output: str) -> str:
        folder.mkdir()
        return f"directml-dll={fake_folder(folder, done(output))}"

    def test_it_runs_the_descriptor_and_its_formula_judges(
        self, tmp_path: Path
    ) -> None:
        ours()
        by_formula = "struct.pack('<8f', 2, 7, 5, 10, 8, 11, 11, 11)"
        lane = self.lane(tmp_path / "dll", by_formula)
        text = output_of(f"check m.onnx {inputs()} --lanes cpu --lane", lane)
        table, note, counts = text.split("\n\n")[1:]
        assert table.splitlines() == [
            "                          cpu   directml-dll",
            (
                "m.onnx: the given inputs  PASS  PASS, its descriptor, with DirectML's"
                " formula"
            ),
        ]
        assert note.splitlines() == [
            (
                "NOTE      m.onnx: cpu ran the file itself; directml-dll ran its"
                " descriptor"
            ),
            (
                "NOTE      m.onnx: the given inputs: indices out of range: 1 of 2,"
                " first IndicesTensor[0,1] = 7; 3 of 8 output elements differ, first"
                " OutputTensor[0,1]: 2 under clamp, 7 under directml"
            ),
        ]
        assert counts.splitlines() == [
            "cpu: 1 case, 1 PASS",
            "directml-dll: 1 case, 1 PASS, 1 with DirectML's formula",
        ]

    def test_a_wrong_file_differs_on_the_cpu_alone(self, tmp_path: Path) -> None:
        fake()
        right = "struct.pack('<8f', 2, 0, 5, 3, 8, 6, 11, 9)"
        lane = self.lane(tmp_path / "dll", right)
        given = f"check m.onnx {inputs([[2, 0]])} --lanes cpu --lane"
        code, text, _ = outcome(given, lane)
        assert code == 1
        assert "m.onnx: the given inputs  DIFF  PASS, its descriptor" in text
        assert text.endswith(
            "1 finding\n1 case on 2 lanes: 1 agree bit for bit, 1 had wrong elements.\n"
        )

    def test_repro_says_that_it_runs_no_model(self, tmp_path: Path) -> None:
        ours()
        lane = self.lane(tmp_path / "dll", "bytes(32)")
        assert outcome("repro m.onnx -o out --lane", lane) == (
            2,
            "",
            f"m.onnx: {TOLD}\n"
            "Error: lane 'directml-dll' runs descriptors, not models; repro needs a"
            " provider's lane, such as directml\n",
        )
