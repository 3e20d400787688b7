"""Which nodes onnxgather's own provider takes, and the traps of ONNX Runtime around
it."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from older_runtime import STATUS_OF_ERROR, older_runtime
from onnx import TensorProto, helper
from provider_models import (
    CPU_PROVIDER,
    GATHERS,
    Shape,
    model_of,
    one_gather,
    opened,
    operators_on,
    ort,
    providers_of,
    run_alone,
    run_on,
    said,
    session_of,
    session_options,
    tensor,
)
from runtime_faults import IS_OLD

import onnxgather as og

DATA = np.arange(12, dtype=np.float32).reshape(4, 3)
WILD = np.array([0, 9])
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT


def provider_of(model: onnx.ModelProto) -> str:
    """Return who runs the node g of a model."""
    return providers_of(opened(model, level=0))["g"]


def gather_of(
    operator: str, data_type: int, data: Shape, indices: Shape, **attributes: int
) -> onnx.ModelProto:
    """Return a model with one node g, of shapes that need not be those of arrays."""
    node = helper.make_node(operator, ["data", "indices"], ["output"], "g")
    node.attribute.extend(itertools.starmap(helper.make_attribute, attributes.items()))
    inputs = [tensor("data", data_type, data), tensor("indices", INT64, indices)]
    output = tensor("output", data_type, None)
    return model_of([node], inputs, [output], 21)


OPEN_8 = [f"d{number}" for number in range(8)]

TAKEN: dict[str, onnx.ModelProto] = {
    "a static Gather": gather_of("Gather", FLOAT, [4, 3], [2]),
    "an open Gather": gather_of("Gather", FLOAT, ["n", 3], ["m"]),
    "a Gather of an unknown rank": gather_of("Gather", FLOAT, None, None),
    "a Gather of rank 12": gather_of("Gather", FLOAT, [1] * 12, [2]),
    "a GatherElements of rank 8": gather_of("GatherElements", FLOAT, OPEN_8, OPEN_8),
    "a GatherND of tuples of 8": gather_of("GatherND", FLOAT, [2] * 8, [3, 8]),
    "a GatherND of tuples of up to 8": gather_of("GatherND", FLOAT, [2] * 8, [3, "n"]),
    "a GatherND of an unknown rank": gather_of("GatherND", FLOAT, None, None),
    "2^32 elements": gather_of("Gather", FLOAT, [2**16, 2**16], [2]),
}

NOT_TAKEN: dict[str, onnx.ModelProto] = {
    "texts": gather_of("Gather", TensorProto.STRING, [4, 3], [2]),
    "texts by elements": gather_of(
        "GatherElements", TensorProto.STRING, [4, 3], [4, 3]
    ),
    "texts by tuples": gather_of("GatherND", TensorProto.STRING, [4, 3], [4, 1]),
    "a GatherElements of rank 9": gather_of("GatherElements", FLOAT, [1] * 9, [1] * 9),
    "a GatherElements of an unknown rank": gather_of(
        "GatherElements", FLOAT, None, None
    ),
    "a GatherND of tuples of 9": gather_of("GatherND", FLOAT, [2] * 9, [3, 9]),
    "a GatherND of tuples of up to 9": gather_of("GatherND", FLOAT, [2] * 9, [3, "n"]),
    "a GatherND of rank 9 by indices of an unknown rank": gather_of(
        "GatherND", FLOAT, [2] * 9, None
    ),
    "more than 2^32 elements of data": gather_of("Gather", FLOAT, [2**16, 2**17], [2]),
    "more than 2^32 indices": gather_of("Gather", FLOAT, [4], [2**16, 2**17]),
    "more than 2^32 elements of the output": gather_of(
        "Gather", FLOAT, [4, 2**16], [2**17]
    ),
}


@pytest.mark.parametrize("which", [*TAKEN])
def test_a_node_that_the_provider_takes(which: str) -> None:
    assert provider_of(TAKEN[which]) == GATHERS


@pytest.mark.parametrize("which", [*NOT_TAKEN])
def test_a_node_that_stays_on_the_cpu(which: str) -> None:
    assert provider_of(NOT_TAKEN[which]) == CPU_PROVIDER


def through(operators: Sequence[str]) -> onnx.ModelProto:
    """Return a model whose node g gathers from the shape of an input, behind
    operators."""
    nodes = [helper.make_node("Shape", ["data"], ["value0"], "shape")]
    constants = {"indices": np.array(0)}
    for number, operator in enumerate(operators):
        inputs = [f"value{number}"]
        attributes: dict[str, Any] = {}
        if operator == "Slice":
            constants |= {"from": np.array([0]), "to": np.array([2])}
            inputs += ["from", "to"]
        elif operator == "Concat":
            constants["first"] = np.array([7])
            inputs = ["first", *inputs]
            attributes = {"axis": 0}
        elif operator == "Cast":
            attributes = {"to": INT64}
        node = helper.make_node(
            operator, inputs, [f"value{number + 1}"], f"n{number}", **attributes
        )
        nodes.append(node)
    last = f"value{len(operators)}"
    nodes.append(helper.make_node("Gather", [last, "indices"], ["output"], "g", axis=0))
    inputs_of_model = [tensor("data", FLOAT, ["n", "m"])]
    outputs = [tensor("output", INT64, [])]
    return model_of(nodes, inputs_of_model, outputs, constants=constants)


SHAPE_ARITHMETIC = [
    [],
    ["Cast"],
    ["Slice"],
    ["Identity"],
    ["Concat"],
    ["Cast", "Slice", "Identity", "Concat"],
    ["Slice", "Concat", "Slice"],
]


@pytest.mark.parametrize("operators", SHAPE_ARITHMETIC, ids="-".join)
def test_arithmetic_with_shapes_stays_on_the_cpu(operators: list[str]) -> None:
    model = through(operators)
    assert provider_of(model) == CPU_PROVIDER
    (output,) = run_on(opened(model, "clamp"), DATA)
    expected = 7 if operators and operators[-1] == "Concat" else 4
    assert (output.shape, int(output)) == ((), 7 if "Concat" in operators else expected)


def test_what_is_computed_from_a_shape_is_no_arithmetic_with_shapes() -> None:
    """Add is none of the operators that only move the numbers of a shape."""
    assert provider_of(through(["Neg"])) == GATHERS


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
def test_elements_of_4_bits_stay_on_the_cpu(kind: int) -> None:
    """GatherBlockQuantized of ONNX Runtime reads them; no node of ONNX's gathers
    does."""
    with pytest.raises(Exception, match="is invalid") as caught:
        opened(gather_of("Gather", kind, [4, 3], [2]), level=0)
    assert "Type 'tensor(" in str(caught.value)


def test_another_domain_is_not_taken() -> None:
    node = helper.make_node(
        "GatherND", ["data", "indices"], ["output"], "g", domain="com.microsoft"
    )
    inputs = [tensor("data", FLOAT, [4, 3]), tensor("indices", INT64, [2, 1])]
    model = model_of([node], inputs, [tensor("output", FLOAT, [2, 3])])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert provider_of(model) == CPU_PROVIDER


def test_a_gather_between_other_operators_needs_no_copy() -> None:
    nodes = [
        helper.make_node("Neg", ["data"], ["negative"], "neg"),
        helper.make_node("Gather", ["negative", "indices"], ["rows"], "g"),
        helper.make_node("Abs", ["rows"], ["output"], "abs"),
    ]
    inputs = [tensor("data", FLOAT, [4, 3]), tensor("indices", INT64, ["n"])]
    model = model_of(nodes, inputs, [tensor("output", FLOAT, ["n", 3])])
    session = opened(model, "zero")
    assert providers_of(session) == {
        "neg": CPU_PROVIDER,
        "g": GATHERS,
        "abs": CPU_PROVIDER,
    }
    (output,) = run_on(session, DATA, WILD)
    assert output.tobytes() == np.stack([DATA[0], 0 * DATA[0]]).tobytes()


# The traps


def devices(name: str) -> list[Any]:
    return [device for device in ort.get_ep_devices() if device.ep_name == name]


def with_provider(settings: dict[str, str]) -> Any:
    """Return options with the provider, without the checks of Python."""
    opened(one_gather("Gather", DATA, WILD))  # registers the library
    options = session_options()
    options.add_provider_for_devices(devices(GATHERS), settings)
    return options


WRONG_OPTIONS = {
    "out_of_range must be clamp, error, zero or directml, got 'wrap'": {
        "out_of_range": "wrap"
    },
    "out_of_range must be clamp, error, zero or directml, got 'Clamp'": {
        "out_of_range": "Clamp"
    },
    "report must be 0 or 1, got 'yes'": {"report": "yes"},
}


@pytest.mark.parametrize("sentence", [*WRONG_OPTIONS])
def test_a_wrong_option_is_an_error_or_runs_on_the_cpu(
    sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """ONNX Runtime up to 1.31 drops the error, and its Python module then prints that
    it falls back: the node runs on the CPU. So Python checks the options first."""
    content = one_gather("Gather", DATA, WILD).SerializeToString()
    options = with_provider(WRONG_OPTIONS[sentence])
    if IS_OLD:
        with pytest.warns(UserWarning, match="will only use the providers passed"):
            session = ort.InferenceSession(content, options)
        assert "Error creating execution provider" in capfd.readouterr().out
        assert providers_of(session) == {"g": CPU_PROVIDER}
        return
    with pytest.raises(Exception, match="must be") as caught:
        ort.InferenceSession(content, options)
    assert str(caught.value).strip().endswith(sentence)


def test_without_options_an_index_out_of_range_is_an_error() -> None:
    session = session_of(one_gather("Gather", DATA, WILD), with_provider({}))
    assert providers_of(session) == {"g": GATHERS}
    with pytest.raises(Exception, match="must be in") as caught:
        run_on(session, DATA, WILD)
    sentence = "Gather 'g': IndicesTensor[1] must be in [-4, 4), got 9"
    assert str(caught.value).endswith(sentence)


def test_a_cpu_provider_before_it_takes_every_node() -> None:
    opened(one_gather("Gather", DATA, WILD))
    options = session_options()
    options.add_provider_for_devices(devices(CPU_PROVIDER), {})
    options.add_provider_for_devices(devices(GATHERS), {"out_of_range": "clamp"})
    session = session_of(one_gather("Gather", DATA, WILD), options)
    assert providers_of(session) == {"g": CPU_PROVIDER}


def test_by_name_it_is_there_since_1_25(capfd: pytest.CaptureFixture[str]) -> None:
    opened(one_gather("Gather", DATA, WILD))
    content = one_gather("Gather", DATA, WILD).SerializeToString()
    names = [GATHERS, CPU_PROVIDER]
    open_by_name = partial(
        ort.InferenceSession, content, session_options(), providers=names
    )
    if IS_OLD:
        with pytest.warns(UserWarning, match="is not in available provider names"):
            session = open_by_name()
        assert f"Unknown Provider Type: {GATHERS}" in capfd.readouterr().out
        assert providers_of(session) == {"g": CPU_PROVIDER}
        return
    assert providers_of(open_by_name()) == {"g": GATHERS}


def test_the_devices_have_no_options_of_their_own() -> None:
    """ONNX Runtime warns of each option that a user sets in place of one of them."""
    opened(one_gather("Gather", DATA, WILD))
    found = devices(GATHERS)
    assert [str(device.device.type).rsplit(".", 1)[-1] for device in found] == ["CPU"]
    assert [device.ep_options for device in found] == [{}]
    assert [device.ep_vendor for device in found] == ["onnxgather"]


@pytest.mark.parametrize(
    "policy", ["DEFAULT", "PREFER_CPU", "PREFER_GPU", "PREFER_NPU", "MAX_PERFORMANCE"]
)
def test_a_selection_policy_chooses_the_provider_once_it_is_registered(
    policy: str,
) -> None:
    """So its rule without options is ONNX's own: an index out of range is an error."""
    opened(one_gather("Gather", DATA, WILD))
    options = session_options()
    policies = ort.OrtExecutionProviderDevicePolicy
    options.set_provider_selection_policy(getattr(policies, policy))
    session = session_of(one_gather("Gather", DATA, WILD), options)
    assert providers_of(session) == {"g": GATHERS}
    with pytest.raises(Exception, match="must be in") as caught:
        run_on(session, DATA, WILD)
    sentence = "Gather 'g': IndicesTensor[1] must be in [-4, 4), got 9"
    assert said(caught.value) == sentence


def test_importing_onnxgather_registers_nothing() -> None:
    code = (
        "import onnxgather as og, onnxruntime as ort\n"
        "print(sorted({d.ep_name for d in ort.get_ep_devices()}))\n"
        "og.add_provider(ort.SessionOptions())\n"
        "print(sorted({d.ep_name for d in ort.get_ep_devices()}))\n"
    )
    names = [CPU_PROVIDER, GATHERS]
    assert run_alone(code) == (f"{[CPU_PROVIDER]}\n{names}\n", "")


def split_model() -> onnx.ModelProto:
    """Return three gathers of one tensor, which ONNX Runtime makes to one Split."""
    nodes = [
        helper.make_node("Gather", ["data", f"i{k}"], [f"o{k}"], f"g{k}", axis=0)
        for k in range(3)
    ]
    constants = {f"i{k}": np.array(k) for k in range(3)}
    outputs = [tensor(f"o{k}", FLOAT, [2]) for k in range(3)]
    return model_of(
        nodes, [tensor("data", FLOAT, [3, 2])], outputs, constants=constants
    )


def test_gathers_that_the_provider_takes_become_no_split(tmp_path: Path) -> None:
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    options = session_options(level=99)
    path = tmp_path / "optimized.onnx"
    options.optimized_model_filepath = str(path)
    session_of(split_model(), options, [CPU_PROVIDER])
    alone = onnx.ModelProto.FromString(path.read_bytes())
    assert [node.op_type for node in alone.graph.node if node.op_type == "Split"]
    session = opened(split_model(), level=99)
    assert operators_on(session) == ["Gather"] * 3
    outputs = run_on(session, data)
    assert [output.tobytes() for output in outputs] == [row.tobytes() for row in data]


def test_an_older_onnx_runtime_is_refused_in_one_sentence() -> None:
    messages: list[bytes] = []
    library = ctypes.CDLL(og.provider_library())
    library.CreateEpFactories.restype = ctypes.c_void_p
    count = ctypes.c_size_t(7)
    factories = (ctypes.c_void_p * 1)()
    room = ctypes.c_size_t(1)
    with older_runtime(messages) as base:
        status = library.CreateEpFactories(
            b"any", base, None, factories, room, ctypes.byref(count)
        )
    assert (status, count.value, factories[0]) == (STATUS_OF_ERROR, 0, None)
    assert messages == [b"onnxgather's provider needs ONNX Runtime 1.24, got 1.23.2"]
