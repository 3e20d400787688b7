"""Whole programs as one WebNN program, which computes what `run` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from messages import message_of
from random_programs import random_program
from rings import by_ring
from small_programs import gather, small_program, written
from webnn_interpreter import interpret
from webnn_modules import as_base64, needs_node, recorded

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.lowering.webnn.requirements import beyond_required
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.program import Program, parse_program
from onnxgather.core.programs.running import execute
from onnxgather.core.programs.whole_webnn import WholeWebnnProgram

POLICIES: tuple[OutOfRange, ...] = ("clamp", "zero", "directml")
FLOATS = [11.0, 12.0, 13.0, 14.0]


def initial_bytes(program: Program, name: str) -> Array:
    content = program.resources[name].initial_bytes().data
    return np.frombuffer(bytes(content), np.uint8)


def computed(program: Program, whole: WholeWebnnProgram) -> dict[str, Array]:
    """Return the outputs of a WebNN program for the values of a DxDispatch program."""
    arrays: dict[str, Array] = {}
    for name, operand in whole.resources.items():
        arrays[operand.name] = initial_bytes(program, name)
    return interpret(whole.to_dict(), arrays)


def test_a_whole_program_gives_what_its_dispatches_give_one_by_one(
    tmp_path: Path,
) -> None:
    compared = 0
    several = 0
    refusals: list[str] = []
    for seed in range(by_ring(40, 200)):
        program = parse_program(random_program(seed), "p.json")
        policy = POLICIES[seed % 3]
        try:
            whole = og.program_to_webnn(program, policy)
        except og.FileFormatError as error:
            refusals.append(str(error))
            continue
        assert list(beyond_required(whole.graph.steps)) == []
        outputs = computed(program, whole)
        folder = tmp_path / str(seed)
        folder.mkdir()
        list(execute(program, og.reference, policy, output_folder=folder))
        for file in folder.iterdir():
            label = whole.commands[f"$.commands[{file.stem}]"]
            assert outputs[label].tobytes() == file.read_bytes(), seed
            compared += 1
        several += len(program.dispatch_commands) > 1
    assert compared > 40
    assert several > 20
    assert len(refusals) < several / 4
    for sentence in refusals:
        assert " must hold 32-bit words in a WebNN graph, as it is Ind" in sentence


def whole_of(text: str, policy: OutOfRange = "directml") -> WholeWebnnProgram:
    return og.program_to_webnn(parse_program(text, "p.json"), policy)


CHAIN = written("t = x[i]; y = t[i]; print y; y = x[i]")


def test_inputs_are_what_counts_and_outputs_what_is_shown_or_unread() -> None:
    whole = whole_of(CHAIN)
    assert list(whole.resources) == ["x", "i"]
    assert whole.commands == {"$.commands[2]": "y"}
    outputs = computed(parse_program(CHAIN, "p.json"), whole)
    floats = {name: array.view(np.float32).ravel() for name, array in outputs.items()}
    assert {name: array.tolist() for name, array in floats.items()} == {
        "y": [11, 12, 11, 14],
        "y_2": [14, 12, 14, 11],
    }
    assert repr(whole) == f"<WholeWebnnProgram, {len(whole.graph.steps)} steps>"
    assert json.loads(whole.to_json())["resources"] == {
        "x": "resource_x",
        "i": "resource_i",
    }


def test_a_resource_that_no_gather_writes_may_be_shown() -> None:
    text = written("y = x[i]; print x")
    outputs = computed(parse_program(text, "p.json"), whole_of(text))
    assert outputs["x"].tobytes() == np.array(FLOATS, np.float32).tobytes()


@needs_node
def test_a_module_of_several_gathers_makes_the_calls(tmp_path: Path) -> None:
    program = parse_program(CHAIN, "p.json")
    whole = whole_of(CHAIN)
    module = tmp_path / "whole.mjs"
    module.write_text(whole.to_javascript(), encoding="utf-8")
    right = {name: as_base64(array) for name, array in computed(program, whole).items()}
    arrays = {name: as_base64(initial_bytes(program, name)) for name in whole.resources}
    question = {
        "file": str(module),
        "arrays": {"i": arrays["i"]},
        "constants": {"x": arrays["x"]},
        "outputs": right,
        "several": True,
    }
    (answer,) = recorded(tmp_path, [question])
    assert "error" not in answer, answer
    assert answer["result"] == answer["again"] == right
    assert answer["written"] == [arrays["i"]]
    methods = [step["method"] for step in answer["calls"]["steps"]]
    assert methods == [step.method for step in whole.graph.steps]


def refusal(text: str, policy: OutOfRange = "directml") -> str:
    return message_of(og.OnnxGatherError, whole_of, text, policy)


def test_a_resource_may_not_be_bytes_and_words() -> None:
    int8 = {"DataType": "INT8"}
    text = small_program(
        {"i": (0, 1, 2, 3), "y": (0,)},
        gather("i", "i", "y", 16, 4, InputTensor=int8, OutputTensor=int8),
    )
    assert refusal(text) == (
        "p.json: $.resources.i must hold 32-bit words in a WebNN graph, as it is"
        " IndicesTensor of $.commands[0], got data of 8 or 16 bits"
    )


def test_indices_fill_words() -> None:
    content = json.loads(written("y = x[i]", i=(0, 1), y=(0, 0)))
    content["resources"]["i"]["sizeInBytes"] = 10
    assert refusal(json.dumps(content)) == (
        "p.json: $.resources.i must hold 32-bit words in a WebNN graph, as it is"
        " IndicesTensor of $.commands[0], got 10 bytes, which are no multiple of 4"
    )
    words: dict[str, Any] = {"x": (0, 1, 2, 3), "i": (0, 1), "y": (0, 0), "z": (0, 0)}
    content = json.loads(written("y = x[i]; z = x[y]", **words))
    content["resources"]["x"]["sizeInBytes"] = 18
    assert refusal(json.dumps(content)) == (
        "p.json: $.resources.y must hold 32-bit words in a WebNN graph, as it is"
        " IndicesTensor of $.commands[1], got OutputTensor of $.commands[0], whose"
        " InputTensor has no such words"
    )


def test_a_program_without_a_gather_is_no_graph() -> None:
    assert (
        refusal(written("print x"))
        == "p.json: $.commands must dispatch a gather to be a graph"
    )


def test_a_graph_cannot_fail() -> None:
    assert refusal(CHAIN, "error") == (
        "out_of_range must not be error for a whole program of WebNN, as a graph cannot"
        " fail between two gathers; the policy zero shows them"
    )
