"""What reports say of files that lanes ran, and of DirectML's own formula."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM, probed
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


def by_formula(of_descriptor: bool = False) -> Result:
    """A result of DirectML.dll where an index is out of range."""
    return replace(
        passed("directml-dll", "DML_OPERATOR_GATHER"),
        by_directml=True,
        of_descriptor=of_descriptor,
    )


def on_descriptor() -> Result:
    """A result of DirectML.dll for the file of a model, with indices in range."""
    return replace(passed("directml-dll", "DML_OPERATOR_GATHER"), of_descriptor=True)


def two_files() -> Report:
    """A report of two models on a lane that runs files, and on DirectML.dll."""
    return report_of(
        [CPU, DLL],
        entry(case_of("m.onnx"), passed("cpu"), on_descriptor()),
        entry(case_of("m.onnx", WILD, OUTSIDE), passed("cpu"), by_formula(True)),
        entry(case_of("n.onnx"), passed("cpu"), on_descriptor()),
    )


def test_the_text_says_what_ran_and_what_judged() -> None:
    assert as_lines(two_files(), 80).splitlines()[1:] == [
        "cpu           CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU",
        "directml-dll  DirectML.dll, DirectML 1.15.4.0",
        "",
        "                      cpu   directml-dll",
        "m.onnx: random bits   PASS  PASS, its descriptor",
        "m.onnx: wild indices  PASS  PASS, its descriptor, with DirectML's formula",
        "n.onnx: random bits   PASS  PASS, its descriptor",
        "",
        (
            "NOTE      2 models: cpu ran the files themselves; directml-dll ran their"
            " descriptors"
        ),
        "",
        "cpu: 3 cases, 3 PASS",
        "directml-dll: 3 cases, 3 PASS, 1 with DirectML's formula",
    ]


def test_the_verdict_counts_them_apart() -> None:
    assert verdict(two_files()) == (
        "Everything agrees, 1 with DirectML's formula",
        "3 cases on 2 lanes: 5 agree bit for bit, 1 with DirectML's formula.",
        "good",
    )
    # A wrong output is counted as every other.
    wrong = replace(DIFF, lane="directml-dll", by_directml=True)
    report = report_of([DLL], entry(gather_case(indices=OUTSIDE), wrong))
    assert verdict(report) == (
        "1 finding",
        "1 case on 1 lane: 0 agree bit for bit, 1 difference.",
        "bad",
    )


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        ([passed("cpu")], "m.onnx: cpu ran the file itself"),
        ([on_descriptor()], "m.onnx: directml-dll ran its descriptor"),
        (
            [passed("cpu"), passed("openvino"), on_descriptor()],
            (
                "m.onnx: cpu, openvino ran the file itself; directml-dll ran its"
                " descriptor"
            ),
        ),
    ],
)
def test_one_sentence_says_which_lanes_ran_a_file(
    results: list[Result], sentence: str
) -> None:
    lanes = [replace(CPU, name=result.lane) for result in results]
    assert models_ran(report_of(lanes, entry(case_of("m.onnx"), *results))) == sentence


def test_a_lane_that_ran_nothing_is_not_said_to_run_a_file() -> None:
    not_run = Result("cpu", "NOT-RUN", "not-run", "it went elsewhere")  # pyright: ignore[reportArgumentType]
    report = report_of([CPU], entry(case_of("m.onnx"), not_run))
    assert models_ran(report) == ""
    # A report without a file of a model says nothing of files.
    assert models_ran(report_of([CPU], entry(gather_case(), passed("cpu")))) == ""


def test_markdown_has_a_column_for_the_formula() -> None:
    text = markdown(two_files()).decode()
    assert text == (
        "## Everything agrees, 1 with DirectML's formula\n"
        "\n"
        "3 cases on 2 lanes: 5 agree bit for bit, 1 with DirectML's formula.\n"
        "\n"
        "2 models: cpu ran the files themselves; directml-dll ran their descriptors.\n"
        "\n"
        "| lane |  | PASS | PASS with DirectML's formula |\n"
        "| --- | --- | ---: | ---: |\n"
        "| cpu | CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU | 3 | 0"
        " |\n"
        "| directml-dll | DirectML.dll, DirectML 1.15.4.0 | 2 | 1 |\n\n"
    )


def test_junit_has_the_counts_as_properties() -> None:
    root = ET.fromstring(junit(two_files()))
    found = {
        suite.get("name"): {
            one.get("name"): one.get("value")
            for one in suite.iter("property")
            if one.get("name") in ("models", "PASS with DirectML's formula", "verdict")
        }
        for suite in root.iter("testsuite")
    }
    models = (
        "2 models: cpu ran the files themselves; directml-dll ran their descriptors"
    )
    headline = "Everything agrees, 1 with DirectML's formula"
    assert found == {
        "cpu": {"verdict": headline, "models": models},
        "directml-dll": {
            "verdict": headline,
            "PASS with DirectML's formula": "1",
            "models": models,
        },
    }


def test_a_finding_says_that_directml_s_formula_was_compared() -> None:
    wrong = replace(DIFF, lane="directml-dll", by_directml=True)
    report = report_of([DLL], entry(gather_case(indices=OUTSIDE), wrong))
    assert "         compared: with DirectML's formula" in as_lines(report).splitlines()


class TestPage:
    def test_it_says_what_ran_and_what_judged(self) -> None:
        content = html(two_files())
        text = content.decode()
        assert "Everything agrees, 1 with DirectML&#x27;s formula" in text
        assert (
            "3 cases on 2 lanes: 5 agree bit for bit, 1 with DirectML&#x27;s formula."
            " 2 models: cpu ran the files themselves; directml-dll ran their"
            " descriptors</p>" in text
        )
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
        wrong = replace(DIFF, lane="directml-dll", by_directml=True)
        report = report_of([OPENVINO, DLL], entry(case, DIFF, wrong, got=got))
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

    @pytest.mark.slow
    @pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
    @pytest.mark.parametrize("width", [390, 1280])
    def test_a_cell_counts_them_apart(self, tmp_path: Path, width: int) -> None:
        script = """
        return {
          cells: [...document.querySelectorAll("#matrix tr.all button")].map(
            (button) => [...button.children].map((part) => part.textContent)),
          fits: document.documentElement.scrollWidth <= innerWidth,
        };
        """
        assert probed(tmp_path, html(two_files()), script, width) == {
            "cells": [["✓ 3/3"], ["✓ 3/3", "✓ 1 passed with DirectML's formula"]],
            "fits": True,
        }


class TestAgain:
    def test_a_model_has_no_target_and_no_opset_of_a_lane(self) -> None:
        lane = replace(OPENVINO, target="webgpu", opset=18)
        case = entry(case_of("m.onnx"), DIFF)
        assert again(report_of([lane], case), case, lane, DIFF) == [
            "onnxgather check --case 'm.onnx: random bits' --lanes openvino"
            " --out-of-range clamp"
        ]
        program = entry(changed(case_of("p.json", "$.commands[0]"), model=None), DIFF)
        assert again(report_of([lane], program), program, lane, DIFF) == [
            "onnxgather check --case 'p.json: $.commands[0] (descriptor)' --lanes"
            " openvino --target webgpu --opset 18 --out-of-range clamp"
        ]

    def test_given_inputs_are_given_again(self) -> None:
        case = entry(case_of("m.onnx", GIVEN), DIFF)
        assert again(report_of([OPENVINO], case), case, OPENVINO, DIFF) == [
            "onnxgather check m.onnx --inputs INPUTS.npz --case 'm.onnx: the given"
            " inputs' --lanes openvino --out-of-range clamp"
        ]


def test_notes_are_about_the_indices_of_users() -> None:
    drawn = case_of("m.onnx", WILD, OUTSIDE)
    assert drawn.note is None
    given = case_of("m.onnx", GIVEN, OUTSIDE)
    assert given.note == (
        "indices out of range: 1 of 2, first IndicesTensor[0,1] = 5; 1 of 4 output"
        " elements differ, first OutputTensor[0,1]: 2 under clamp, 5 under directml"
    )
    program = changed(given, model=None)
    assert program.note == f"{given.note}; for the other: --out-of-range directml"
    assert case_of("m.onnx", GIVEN).note is None
