"""A model of one gather is the model of its own descriptor, whatever its ranks are."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from messages import message_of
from rings import one_quick_in
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.proving.certify import certify

pytest.importorskip("z3")

TYPES = {
    "FLOAT32": "float",
    "FLOAT64": "double",
    "FLOAT16": "float16",
    "INT64": "int64",
    "UINT8": "uint8",
}
"""The names of data types in a descriptor and in ONNX's textual syntax."""

ONE = np.array([1])

OPEN = "ABCDEFGHIJKLMNOPQ"
"""The names of open sizes, none of them twice."""


class Drawn(NamedTuple):
    """A node, and its descriptor."""

    node: str
    number: int
    """The axis, or the number of batch dimensions."""
    data_type: str
    data: list[int]
    index_type: str
    indices: list[int]
    output: list[int]
    desc: og.Descriptor

    def model(self, random: Random) -> onnx.ModelProto:
        """The model of the node; some sizes of its inputs are open in some models."""
        has_open = random.random() < 0.3
        names = iter(OPEN)

        def dims(sizes: list[int]) -> str:
            texts = [str(size) for size in sizes]
            for number in range(len(texts)):
                if has_open and random.random() < 0.5:
                    texts[number] = next(names)
            return ", ".join(texts)

        data_type = TYPES[self.data_type]
        index_type = self.index_type.lower()
        model = onnx.parser.parse_model(f"""
            <ir_version: 8, opset_import: ["" : {random.choice([13, 17, 21])}]>
            g ({data_type}[{dims(self.data)}] d, {index_type}[{dims(self.indices)}] i)
            => ({data_type}[{", ".join(map(str, self.output))}] y)
            {{ y = {self.node}(d, i) }}""")
        # The syntax has no scalars: empty brackets are of any rank.
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.SetInParent()
        return model


def gather(random: Random, data: list[int]) -> tuple[str, int, list[int], list[int]]:
    """A Gather: its node, its number, the sizes of the indices and of the output."""
    rank = len(data)
    axis = random.randint(-rank, rank - 1)
    index_rank = random.randint(0, 9 - rank)
    indices = [random.choice([1, 2, 3]) for _ in range(index_rank)]
    at = axis % rank
    output = [*data[:at], *indices, *data[at + 1 :]]
    return f"Gather<axis = {axis}>", axis, indices, output


def gather_elements(
    random: Random, data: list[int]
) -> tuple[str, int, list[int], list[int]]:
    """A GatherElements, likewise."""
    rank = len(data)
    axis = random.randint(-rank, rank - 1)
    # DirectML takes no smaller size beside the axis.
    indices = [*data]
    indices[axis] = random.randint(1, 4)
    return f"GatherElements<axis = {axis}>", axis, indices, indices


def gather_nd(random: Random, data: list[int]) -> tuple[str, int, list[int], list[int]]:
    """A GatherND, likewise."""
    rank = len(data)
    batches = random.randint(0, rank - 1)
    length = random.randint(1, rank - batches)
    outer = [random.choice([1, 2, 3]) for _ in range(random.randint(0, 2))]
    indices = [*data[:batches], *outer, length]
    output = [*indices[:-1], *data[batches + length :]]
    return f"GatherND<batch_dims = {batches}>", batches, indices, output


def drawn(random: Random) -> Drawn:
    """A random node that has a descriptor."""
    while True:
        data = [random.choice([1, 1, 2, 3]) for _ in range(random.randint(1, 8))]
        draw = random.choice([gather, gather_elements, gather_nd])
        node, number, indices, output = draw(random, data)
        operator = node.partition("<")[0]
        data_type = random.choice([*TYPES])
        # The DirectML provider takes no INT32 of a GatherND.
        index_type = random.choice(["INT64", "INT32"])
        if operator == "GatherND":
            index_type = "INT64"
        given = (data_type, data), (index_type, indices)
        # DirectML has no scalar, and 8 dimensions.
        if 0 < len(output) <= 8 and len(indices) <= 8:
            desc = og.from_onnx(operator, *given, axis=number, batch_dims=number)
            return Drawn(
                node, number, data_type, data, index_type, indices, output, desc
            )


@pytest.mark.parametrize("seed", one_quick_in(8, [*range(8)]))
def test_each_model_of_one_gather_means_its_descriptor(seed: int) -> None:
    random = Random(seed)
    operators = set[str]()
    with_fewer_dimensions = 0
    for _ in range(30):
        node = drawn(random)
        certified = certify(node.desc, "error", model=node.model(random))
        assert str(certified) == "proved", node
        operators.add(node.desc.operator)
        tensor = node.desc.indices_tensor
        with_fewer_dimensions += len(node.indices) < tensor.dimension_count
    assert operators == {"GATHER", "GATHER_ELEMENTS", "GATHER_ND1"}
    assert with_fewer_dimensions > 5


def test_a_gather_along_another_axis_of_the_same_size_is_refuted() -> None:
    random = Random(10)
    count = 0
    for _ in range(60):
        node = drawn(random)
        rank = len(node.data)
        if not node.node.startswith("Gather<"):
            continue
        axis = node.number % rank
        for other in range(rank):
            if other != axis and node.data[other] == node.data[axis] > 1:
                model = node._replace(node=f"Gather<axis = {other}>").model(random)
                model.graph.output[0].type.tensor_type.ClearField("shape")
                assert certify(node.desc, "error", model=model).state == "refuted"
                count += 1
    assert count > 10


def scalar_index(shape: str, node: str) -> onnx.ModelProto:
    """A model whose data have a shape, and whose index is one number."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{shape}] d, int64[1] i) => (float[N] y) <int64[1] zero = {{0}}>
        {{ {node} }}"""
    return onnx.parser.parse_model(text)


def test_leading_sizes_that_are_not_1_do_not_drop() -> None:
    desc = descriptor("GATHER: FLOAT32 2x3, INT64 1x1, FLOAT32 1x3, 0, 1")
    model = scalar_index("3", "y = Gather(d, i)")
    said = message_of(og.OnnxGatherError, certify, desc, "error", model=model)
    assert said == "'d' of the model must be FLOAT [2, 3], got FLOAT [3]"
    model = scalar_index("1, 2, 3", "y = Gather(d, i)")
    said = message_of(og.OnnxGatherError, certify, desc, "error", model=model)
    assert said == "'d' of the model must be FLOAT [2, 3], got FLOAT [1, 2, 3]"


def test_an_output_without_leading_ones_is_compared_by_its_elements() -> None:
    desc = descriptor("GATHER: FLOAT32 2x3, INT64 1x1, FLOAT32 1x3, 0, 1")
    right = "row = Gather(d, i)  y = Squeeze(row, zero)"
    assert str(certify(desc, "error", model=scalar_index("2, 3", right))) == "proved"
    wrong = "row = Gather<axis = 1>(d, i)  y = Squeeze(row, last)"
    model = scalar_index("2, 3", wrong.replace("last", "one"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(ONE, "one"))
    certified = certify(desc, "error", model=model)
    assert str(certified) == (
        "refuted: where IndicesTensor is 0 and InputTensor counts from 1 to 127 over"
        " and over, OutputTensor must be float32 [3], got float32 [2]"
    )


def model_of(inputs: str, nodes: str, data_type: str = "float") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({data_type}[2] y)'
        f" {{ {nodes} }}"
    )


GATHER_OF_THREE = descriptor("GATHER: FLOAT32 3, INT64 2, FLOAT32 2, 0, 1")


def test_indices_may_be_the_first_input() -> None:
    model = model_of("int64[2] i, float[3] d", "y = Gather(d, i)")
    assert str(certify(GATHER_OF_THREE, "error", model=model)) == "proved"
    certified = certify(GATHER_OF_THREE, "zero", model=model)
    assert certified.counterexample is not None
    assert (certified.state, certified.counterexample.found) == ("refuted", "an error")
    # Where both orders fit, the data comes first.
    desc = descriptor("GATHER: INT64 2, INT64 2, INT64 2, 0, 1")
    for inputs, state in (("d, int64[2] i", "proved"), ("i, int64[2] d", "refuted")):
        model = model_of(f"int64[2] {inputs}", "y = Gather(d, i)", "int64")
        assert certify(desc, "error", model=model).state == state


def test_truths_are_the_bytes_of_a_descriptor() -> None:
    desc = og.from_onnx("Gather", ("BOOL", [3]), ("INT64", [2]))
    assert desc.input_tensor.data_type.name == "UINT8"
    right = model_of("bool[3] d, int64[2] i", "y = Gather(d, i)", "bool")
    assert str(certify(desc, "error", model=right)) == "proved"
    wrong = model_of("bool[3] d, int64[2] i", "n = Not(d) y = Gather(n, i)", "bool")
    assert str(certify(desc, "error", model=wrong)) == (
        "undecided: arithmetic with the elements of InputTensor"
    )
    # No run shows what a solver finds.
    certified = certify(desc, "zero", model=right)
    assert str(certified) == "undecided: data of BOOL, which do not count"
