"""A whole program as one model: small programs by hand, and what such a model
refuses."""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np
import onnx
import onnxruntime
import pytest
from folders import MODELS
from messages import message_of
from model_metadata import metadata_of
from small_programs import gather, shown, small_program, written

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.write import check_model
from onnxgather.core.options import TARGETS, OutOfRange
from onnxgather.core.programs.program import parse_program

UINT = {"DataType": "UINT32"}
AT_32 = {"name": "x", "elementOffset": 8}
ONE = written("y = x[i]")
X, I, Y = [11.0, 12.0, 13.0, 14.0], (3, 1, 3, 0), [0.0, 0.0, 0.0, 0.0]  # noqa: E741


def outputs(
    text: str, feeds: dict[str, Array] | None = None, **options: Any
) -> dict[str, Any]:
    """Return the outputs of the model of a program, as ONNX Runtime computes them on
    the CPU."""
    model = og.program_to_onnx(parse_program(text, "p.json"), **options)
    check_model(model)
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, feeds or {}), strict=True))
    return {name: array.tolist() for name, array in found.items()}


def refusal(text: str, **options: Any) -> str:
    """Return the sentence by which the model of a program is refused."""
    program = parse_program(text, "p.json")
    return message_of(og.OnnxGatherError, og.program_to_onnx, program, **options)


def names(model: onnx.ModelProto) -> tuple[set[str], set[str], set[str]]:
    """Return the names of the inputs, of the initializers of resources, and of the
    outputs."""
    own = {one.name for one in model.graph.initializer if len(one.name) == 1}
    return (
        {i.name for i in model.graph.input},
        own,
        {o.name for o in model.graph.output},
    )


@pytest.mark.parametrize("target", [*TARGETS])
def test_in_a_chain_what_one_gather_writes_the_next_reads(target: str) -> None:
    text = written("t = x[i]; y = t[i]; print y")
    assert outputs(text, target=target) == {"y": [11, 12, 11, 14]}


@pytest.mark.parametrize(
    ("text", "resources", "found"),
    [
        (
            "t = x[i]; y = t[i]; z = t[j]",
            {"j": (0, 0), "z": [0.0, 0.0]},
            {"y": [11, 12, 11, 14], "z": [14, 14]},
        ),
        (
            "t = y[i]; y = t[i]; y_2 = y[i]; print y",
            {"y": X},
            {"y_3": [11, 12, 11, 14], "y_2": [14, 12, 14, 11]},
        ),
        ("y = x[i]; y = x[i]", {}, {"y": [14, 12, 14, 11], "y_2": [14, 12, 14, 11]}),
        (
            "print z; print x; y = x[i]; print x",
            {"z": (7,)},
            {"z_2": [7], "x_2": X, "y": [14, 12, 14, 11]},
        ),
    ],
    ids=[
        "two gathers read what one writes",
        "a number behind a name makes no other resource's name",
        "what is written and never read is an output",
        "what no gather writes is an output where it is printed",
    ],
)
def test_the_outputs_of_a_program(
    text: str, resources: dict[str, Any], found: dict[str, Any]
) -> None:
    assert outputs(written(text, **resources)) == found


def test_a_resource_that_is_used_again_has_a_value_for_each_time() -> None:
    text = "y = x[i]; print y; y = x[j]; print y; print y"
    text = written(text, j=(1, 1, 1, 1))
    model = og.program_to_onnx(parse_program(text, "p.json"))
    assert outputs(text) == {"y": [14, 12, 14, 11], "y_2": [12, 12, 12, 12]}
    assert metadata_of(model)["commands"] == {
        "$.commands[1]": "y",
        "$.commands[3]": "y_2",
        "$.commands[4]": "y_2",
    }


def test_what_is_written_to_a_file_is_an_output_though_it_is_read() -> None:
    write = {"type": "writeFile", "resource": "t", "targetPath": "t.npy"}
    text = small_program(
        {"x": X, "i": I, "t": Y, "y": Y},
        gather("x", "i", "t", 4, 4),
        write,
        gather("t", "i", "y", 4, 4),
    )
    assert outputs(text) == {"t": [14, 12, 14, 11], "y": [11, 12, 11, 14]}


def test_views_begin_at_their_offsets_and_what_is_not_written_stays() -> None:
    text = small_program(
        {"x": [float(value) for value in range(1, 14)], "i": (1, 0)},
        gather(AT_32, "i", {"name": "x", "elementOffset": 4}, 4, 2),
    )
    assert outputs(text) == {"x_2": [1, 2, 3, 4, 10, 9, 7, 8, 9, 10, 11, 12, 13]}


def test_strides_say_where_elements_are_read_and_written() -> None:
    text = small_program(
        {"x": [1.0, 2.0, 3.0, 4.0, 5.0], "i": (2, 1, 0), "y": [9.0] * 10},
        gather(
            "x",
            "i",
            {"name": "y", "elementOffset": 4},
            3,
            3,
            InputTensor={"Strides": [2]},
            OutputTensor={"Strides": [2]},
        ),
    )
    assert outputs(text) == {"y_2": [9, 9, 9, 9, 5, 9, 3, 9, 1, 9]}


def test_an_output_that_is_the_whole_resource_needs_nothing_of_it() -> None:
    square = {"Sizes": [2, 2]}
    turned = gather(
        "x",
        "i",
        "y",
        4,
        2,
        InputTensor=square,
        IndicesTensor={"Sizes": [1, 2]},
        OutputTensor=square | {"Strides": [1, 2]},
    )
    text = small_program({"x": X, "i": (1, 0), "y": Y}, turned)
    assert outputs(text) == {"y": [13, 11, 14, 12]}
    model = og.program_to_onnx(parse_program(text, "p.json"))
    assert names(model) == (set(), {"x", "i"}, {"y"})


def test_an_input_owned_by_dml_has_the_values_from_before_the_first_command() -> None:
    text = small_program(
        {"x": X, "i": I, "y": Y},
        gather("y", "i", "x", 4, 4),
        gather("x", "i", "y", 4, 4, InputTensor={"Flags": "OWNED_BY_DML"}),
    )
    assert outputs(text) == {"x_2": [0, 0, 0, 0], "y_2": [14, 12, 14, 11]}


def test_an_index_out_of_range_reads_what_lies_behind_the_elements() -> None:
    longer = {"TotalTensorSizeInBytes": 16}
    text = small_program(
        {"x": X, "i": (3, 9), "y": Y}, gather("x", "i", "y", 2, 2, InputTensor=longer)
    )
    assert outputs(text) == {"y_2": [12, 12, 0, 0]}
    assert outputs(text, out_of_range="directml") == {"y_2": [14, 14, 0, 0]}
    assert outputs(text, out_of_range="zero") == {"y_2": [0, 0, 0, 0]}


def test_known_indices_in_range_give_onnx_s_own_node_under_every_policy() -> None:
    policies: tuple[OutOfRange, ...] = get_args(OutOfRange)
    for policy in policies:
        model = og.program_to_onnx(parse_program(ONE, "p.json"), policy)
        assert [node.op_type for node in model.graph.node] == ["Min", "Cast", "Gather"]
        assert [node.output[0] for node in model.graph.node] == [
            "y.indices_clamped",
            "y.indices_int32",
            "y",
        ]
    # Without known indices, the nodes are those of the policy.
    program = parse_program(ONE, "p.json")
    model = og.program_to_onnx(program, inputs=["i"])
    assert [node.op_type for node in model.graph.node] == ["Min", "Cast", "Gather"]
    model = og.program_to_onnx(program, "directml", inputs=["i"])
    assert "Mul" in {node.op_type for node in model.graph.node}


def test_inputs_are_the_resources_that_are_named_and_else_those_with_files(
    tmp_path: Any,
) -> None:
    np.save(tmp_path / "x.npy", np.array(X, np.float32))
    path = tmp_path / "p.json"
    source = {"initialValues": {"sourcePath": "x.npy"}}
    text = small_program({"x": source, "i": I, "y": Y}, gather("x", "i", "y", 4, 4))
    path.write_text(text, encoding="utf-8")
    assert names(og.program_to_onnx(path)) == ({"x"}, {"i"}, {"y"})
    assert names(og.program_to_onnx(str(path), inputs=["i"])) == ({"i"}, {"x"}, {"y"})
    assert names(og.program_to_onnx(path, inputs=[])) == (set(), {"x", "i"}, {"y"})
    feeds = {
        "x": np.array([1, 2, 3, 4], np.float32),
        "i": np.array([0, 0, 1, 9], np.uint32),
    }
    assert outputs(ONE, feeds, inputs=feeds) == {"y": [1, 1, 2, 4]}


def test_a_value_of_two_data_types_is_refused_by_its_name() -> None:
    assert (
        refusal(written("y = x[i]; z = x[y]"))
        == "p.json: $.resources.y must be bound as FLOAT32 to IndicesTensor of"
        " $.commands[1] too, as a value of a model has one data type, got UINT32"
    )
    part = gather("i", "i", "x", 4, 4, InputTensor=UINT, OutputTensor=UINT)
    text = small_program(
        {"x": [*X, 1.0], "y": X, "i": I}, gather("y", "i", "x", 4, 4), part
    )
    assert (
        refusal(text)
        == "p.json: $.resources.x must be bound as FLOAT32 to OutputTensor of"
        " $.commands[1] too, as a value of a model has one data type, got UINT32"
    )


def test_a_resource_may_hold_another_data_type_once_it_is_written_whole() -> None:
    text = small_program(
        {"x": Y, "i": I, "y": X, "t": (0, 0, 0, 0)},
        gather("y", "i", "x", 4, 4),
        gather("i", "i", "x", 4, 4, InputTensor=UINT, OutputTensor=UINT),
        gather("x", "i", "t", 4, 4, InputTensor=UINT, OutputTensor=UINT),
    )
    assert outputs(text) == {"x": [14, 12, 14, 11], "t": [3, 1, 3, 0]}


def test_a_program_that_dispatches_no_gather_is_refused() -> None:
    without = json.dumps(json.loads(ONE) | {"commands": [shown("x")]})
    assert refusal(without) == "p.json: $.commands must dispatch a gather to be a model"
    other = json.loads(ONE)
    other["dispatchables"]["add"] = {"type": "DML_OPERATOR_ADD"}
    other["commands"].append(
        {"type": "dispatch", "dispatchable": "add", "bindings": {}}
    )
    assert refusal(json.dumps(other)).startswith("p.json: $.dispatchables.add")


def test_a_resource_without_a_name_is_refused() -> None:
    text = small_program({"": X, "i": I, "y": Y}, gather("", "i", "y", 4, 4))
    assert (
        refusal(text)
        == "p.json: $.resources must have names to be values of a model, got ''"
    )


def test_inputs_must_be_resources_whose_first_values_count() -> None:
    for name in ("y", "z"):
        assert (
            refusal(ONE, inputs=[name])
            == "p.json: inputs must name resources whose values before the first"
            f" command count (x, i), got '{name}'"
        )
    assert refusal(ONE, inputs=["X"]).endswith("""got 'X'; did you mean "x"?""")


def test_options_are_those_of_to_onnx() -> None:
    options = {"out_of_range": "wrap", "target": "gpu", "opset": 12, "threads": 0}
    told = [refusal(ONE, **{name: value}) for name, value in options.items()]
    assert told == [
        "out_of_range must be one of clamp, error, zero, directml, got 'wrap'",
        f"target must be one of {', '.join(TARGETS)}, got 'gpu'",
        "opset must be an integer from 13 to 25, got 12",
        "threads must be an integer from 1 to 1024, got 0",
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("folder/some program.json", "some program"),
        ("\u00e9.json", "\u00e9"),
        ("b\udcff.json", r"b\udcff"),  # the file b"b\xff.json"
        ("", "program"),
    ],
)
def test_a_model_has_the_name_of_its_file_in_utf_8(path: str, name: str) -> None:
    model = og.program_to_onnx(parse_program(ONE, path))
    check_model(model)
    assert model.graph.name == name


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.json")))
def test_the_model_of_a_program_of_the_checkout_prints_its_txt(name: str) -> None:
    model = og.program_to_onnx(MODELS / f"{name}.json", inputs=[])
    check_model(model)
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    (output,) = session.run(None, {})
    (printed,) = (MODELS / f"{name}.txt").read_text(encoding="latin-1").splitlines()
    assert printed.startswith(f"Resource '{session.get_outputs()[0].name}': ")
    values = [
        chr(x) if output.itemsize == 1 else f"{x:g}" for x in output.ravel().tolist()
    ]
    assert printed.partition(": ")[2].split(", ") == values
