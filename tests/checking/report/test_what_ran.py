"""What reports say of files that lanes ran, and of DirectML's own formula."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace as changed
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from browser import AT_EACH_WIDTH, in_browser, probed
from html_page import Page
from msgspec.structs import replace
from report_samples import (
    CPU,
    DIFF,
    OPENVINO,
    Array,
    entry,
    gather_case,
    passed,
    properties,
    report_of,
    spoiled,
)

from onnxgather.checking.cases import GIVEN, DescriptorCase, FileModel, Origin
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report import as_lines, html, junit, markdown
from onnxgather.checking.report.sentences import again, models_ran, verdict
from onnxgather.checking.results import Report, Result
from onnxgather.core.descriptors.drawn import BITS, WILD
from onnxgather.core.descriptors.reference import reference

DLL = LaneInfo("directml-dll", "DirectML.dll", {"DirectML": "1.15.4.0"})
MODEL = FileModel(
    b"the model", ("InputTensor", "IndicesTensor"), "OutputTensor", "portable"
)
INSIDE = [2, 0]
OUTSIDE = [0, 5]


def case_of(
    file: str, command: str = BITS, indices: list[int] = INSIDE
) -> DescriptorCase:
    """A case of the file of a model."""
    origin = Origin(file, command, "descriptor")
    case = gather_case(origin.name, indices=indices)
    return changed(case, origin=origin, model=MODEL)


ON_DESCRIPTOR = replace(
    passed("directml-dll", "DML_OPERATOR_GATHER"), of_descriptor=True
)
"""DirectML.dll's result for the file of a model, with indices in range."""

BY_FORMULA = replace(ON_DESCRIPTOR, by_directml=True)
"""Its result where an index is out of range."""

WRONG = replace(DIFF, lane="directml-dll", by_directml=True)


def two_files() -> Report:
    """A report of two models on a lane that runs files, and on DirectML.dll."""
    return report_of(
        [CPU, DLL],
        entry(case_of("m.onnx"), passed("cpu"), ON_DESCRIPTOR),
        entry(case_of("m.onnx", WILD, OUTSIDE), passed("cpu"), BY_FORMULA),
        entry(case_of("n.onnx"), passed("cpu"), ON_DESCRIPTOR),
    )


RAN = "2 models: cpu ran the files themselves; directml-dll ran their descriptors"


def test_the_text_says_what_ran_and_what_judged() -> None:
    assert (
        as_lines(two_files(), 80).partition("\n")[2]
        == f"""\
cpu           CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU
directml-dll  DirectML.dll, DirectML 1.15.4.0

                      cpu   directml-dll
m.onnx: random bits   PASS  PASS, its descriptor
m.onnx: wild indices  PASS  PASS, its descriptor, with DirectML's formula
n.onnx: random bits   PASS  PASS, its descriptor

NOTE      {RAN}

cpu: 3 cases, 3 PASS
directml-dll: 3 cases, 3 PASS, 1 with DirectML's formula"""
    )


def test_the_verdict_counts_them_apart() -> None:
    assert verdict(two_files()) == (
        "Everything agrees, 1 with DirectML's formula",
        "3 cases on 2 lanes: 5 agree bit for bit, 1 with DirectML's formula.",
        "good",
    )
    # A wrong output is counted as every other.
    report = report_of([DLL], entry(gather_case(indices=OUTSIDE), WRONG))
    assert "         compared: with DirectML's formula" in as_lines(report).splitlines()
    assert verdict(report) == (
        "1 finding",
        "1 case on 1 lane: 0 agree bit for bit, 1 had wrong elements.",
        "bad",
    )


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        ([passed("cpu")], "cpu ran the file itself"),
        ([ON_DESCRIPTOR], "directml-dll ran its descriptor"),
        (
            [passed("cpu"), passed("openvino"), ON_DESCRIPTOR],
            "cpu, openvino ran the file itself; directml-dll ran its descriptor",
        ),
    ],
)
def test_one_sentence_says_which_lanes_ran_a_file(
    results: list[Result], sentence: str
) -> None:
    lanes = [replace(CPU, name=result.lane) for result in results]
    report = report_of(lanes, entry(case_of("m.onnx"), *results))
    assert models_ran(report) == f"m.onnx: {sentence}"


def test_a_lane_that_ran_nothing_is_not_said_to_run_a_file() -> None:
    not_run = Result("cpu", "NOT-RUN", "not-run", "it went elsewhere")  # pyright: ignore[reportArgumentType]
    report = report_of([CPU], entry(case_of("m.onnx"), not_run))
    assert models_ran(report) == ""
    # A report without a file of a model says nothing of files.
    assert models_ran(report_of([CPU], entry(gather_case(), passed("cpu")))) == ""


def test_markdown_has_a_column_for_the_formula() -> None:
    assert (
        markdown(two_files()).decode()
        == f"""\
## Everything agrees, 1 with DirectML's formula

3 cases on 2 lanes: 5 agree bit for bit, 1 with DirectML's formula.

{RAN}.

| lane |  | PASS | PASS with DirectML's formula |
| --- | --- | ---: | ---: |
| cpu | CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU | 3 | 0 |
| directml-dll | DirectML.dll, DirectML 1.15.4.0 | 2 | 1 |

"""
    )


def test_junit_has_the_counts_as_properties() -> None:
    cpu, dll = map(properties, ET.fromstring(junit(two_files())))
    said = {
        "verdict": "Everything agrees, 1 with DirectML's formula",
        "models": RAN,
    }
    assert cpu == {**cpu, **said}
    assert dll == {**dll, **said, "PASS with DirectML's formula": "1"}
    assert "PASS with DirectML's formula" not in cpu


class TestPage:
    def test_it_says_what_ran_and_what_judged(self) -> None:
        content = html(two_files())
        text = unescape(content.decode())
        assert "Everything agrees, 1 with DirectML's formula" in text
        agree = "3 cases on 2 lanes: 5 agree bit for bit, 1 with DirectML's formula."
        assert f"{agree} {RAN}</p>" in text
        cell, other = Page(content).cases[1]["results"]
        assert (cell["words"], cell["remarks"]) == ("passed", [])
        assert other["words"] == "passed with DirectML's formula"
        assert other["remarks"] == ["its descriptor", "with DirectML's formula"]

    def test_the_bytes_that_are_expected_are_those_of_the_formula(self) -> None:
        case = gather_case(indices=OUTSIDE)
        right = reference(case.descriptor, case.data, case.indices, "directml")
        assert right.tolist() == [[0, 5], [3, 5]]
        got: dict[str, Array] = {
            "openvino": spoiled(case, 2),
            "directml-dll": np.array([[0, 5], [0, 5]], np.float32),
        }
        report = report_of([OPENVINO, DLL], entry(case, DIFF, WRONG, got=got))
        (detail,) = Page(html(report)).details
        expected = ["3", "00 00 40 40", "0", "00 00 00 00"]
        assert detail["bytes"] == {
            "openvino": [["[1, 0]", *expected]],
            "directml-dll": [["[1, 0]", *expected]],
        }
        # The picture has the output of the policy, so that DirectML's is not in it.
        assert [*detail["picture"]["lanes"]] == ["openvino"]

    def test_the_file_of_a_model_has_no_graph_of_another_model(self) -> None:
        case = case_of("m.onnx")
        report = report_of(
            [OPENVINO], entry(case, DIFF, got={"openvino": spoiled(case, 2)})
        )
        (detail,) = Page(html(report)).details
        assert detail["graphs"] == []
        assert detail["descriptor"]["type"] == "DML_OPERATOR_GATHER"

    @in_browser
    @AT_EACH_WIDTH
    def test_a_cell_counts_them_apart(self, tmp_path: Path, width: int) -> None:
        script = """
        return {
          cells: [...document.querySelectorAll("#matrix td [aria-pressed]")].map(
            (button) => [...button.children].map((part) => part.textContent)),
          fits: document.documentElement.scrollWidth <= innerWidth,
        };
        """
        assert probed(tmp_path, html(two_files()), script, width) == {
            "cells": [
                ["✓ 1 passed with DirectML's formula", "✓ 6/6"],
                ["✓ 3/3"],
                ["✓ 1 passed with DirectML's formula", "✓ 3/3"],
            ],
            "fits": True,
        }


@pytest.mark.parametrize(
    ("case", "words"),
    [
        # A model has no target and no opset of a lane.
        (case_of("m.onnx"), "--case 'm.onnx: random bits' --lanes openvino"),
        (
            changed(case_of("p.json", "$.commands[0]"), model=None),
            "--case 'p.json: $.commands[0] (descriptor)' --lanes openvino --target"
            " portable --opset 18",
        ),
        # Inputs that were given are given again.
        (
            case_of("m.onnx", GIVEN),
            "m.onnx --inputs INPUTS.npz --case 'm.onnx: the given inputs' --lanes"
            " openvino",
        ),
    ],
)
def test_a_file_has_the_command_that_runs_it_again(
    case: DescriptorCase, words: str
) -> None:
    lane = replace(OPENVINO, target="portable", opset=18)
    result = entry(case, DIFF)
    command = f"onnxgather check {words} --out-of-range clamp"
    assert again(report_of([lane], result), result, lane, DIFF) == [command]


def test_notes_are_about_the_indices_of_users() -> None:
    drawn = case_of("m.onnx", WILD, OUTSIDE)
    assert drawn.note is None
    given = case_of("m.onnx", GIVEN, OUTSIDE)
    assert given.note == (
        "indices out of range: 1 of 2, first IndicesTensor[0,1] = 5; 1 of 4 output"
        " elements differ, first OutputTensor[0,1]: 2 under clamp, 5 under directml"
    )
    program = changed(given, model=None)
    other = "for the other output: --out-of-range directml"
    assert program.note == f"{given.note}; {other}"
    assert case_of("m.onnx", GIVEN).note is None
