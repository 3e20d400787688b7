"""Gathers rewritten where they stand: right for every index, and nothing else is
touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from index_arithmetic import index_values
from network_draft import results, session
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.graph_audit import operations_of
from onnxgather.auditing.hardening.harden import HardenedModel, Rewritten, rewrite
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.gather import ATTRIBUTES, gather_of_node
from onnxgather.core.model.network import read_network
from onnxgather.core.model.own import drop_entries
from onnxgather.core.options import OutOfRange

OPSET = 'ir_version: 8, opset_import: ["" : 17]'

IMPORTS = 'ir_version: 8, opset_import: ["" : 17, "own" : 1]'


def parsed(text: str, head: str = OPSET) -> onnx.ModelProto:
    """Return the model of a text in ONNX's own notation."""
    return onnx.parser.parse_model(f"<{head}>\n{text}")


def hardened(
    model: onnx.ModelProto, policy: OutOfRange = "clamp", shapes: Any = None
) -> tuple[onnx.ModelProto, list[Rewritten]]:
    """Return the model with every gather rewritten whose indices are computed."""
    done = rewritten(model, policy, shapes)
    assert not done.left
    return done.model, done.rewritten


def rewritten(
    model: onnx.ModelProto, policy: OutOfRange | int = "clamp", shapes: Any = None
) -> HardenedModel:
    """Return what becomes of a model if every gather is rewritten whose indices are
    computed."""
    plain = read_network(model)
    network = read_network(model, shapes)
    ranges_of(network)
    limited = {
        key: ""
        for key, scope, node in operations_of(network)
        if node.operator in ATTRIBUTES and scope.constant(node.inputs[1]) is None
    }
    done = rewrite(network, plain, ranges_of(plain), limited, policy)
    # All else is compared with the model.
    drop_entries(done.light)
    return done


Run = Callable[..., list[Any]]


def opened(model: onnx.ModelProto, optimized: bool = True) -> Run:
    """Return a function that runs a model on ONNX Runtime's CPU provider."""
    whole = session(model, 3 if optimized else 0)

    def run(**given: Any) -> list[Any]:
        return [*results(whole, given).values()]

    return run


def outputs(model: onnx.ModelProto, **inputs: Any) -> list[Any]:
    """Run a model once."""
    return opened(model)(**inputs)


def wild(shape: Sequence[int], dtype: Any, seed: int = 0) -> Array:
    """Return indices from anywhere in their type, near the edges too."""
    random = np.random.default_rng(seed)
    values = index_values(np.dtype(dtype).name, 5)
    return random.choice(values, tuple(shape)).astype(dtype)


NODES: dict[str, tuple[str, int, tuple[int, ...], tuple[int, ...]]] = {
    "gather": ("Gather", 0, (5, 3), (2, 2)),
    "gather, last axis": ("Gather", -1, (2, 5), (4,)),
    "gather, one index": ("Gather", 1, (2, 5), ()),
    "elements": ("GatherElements", 1, (3, 5), (3, 7)),
    "elements, negative axis": ("GatherElements", -2, (5, 3), (4, 3)),
    "tuples": ("GatherND", 0, (5, 6, 2), (4, 2)),
    "tuples of one": ("GatherND", 0, (5, 2), (3, 1)),
    "batches": ("GatherND", 1, (2, 5, 6), (2, 3, 2)),
    "equal axes": ("GatherND", 0, (5, 5), (9, 2)),
}
"""Operator, axis or batch_dims, and the shapes of the data and the indices."""


def node_model(name: str, index_type: str, dynamic: bool) -> onnx.ModelProto:
    """Return a model of one gather of FLOAT data."""
    operator, number, data, indices = NODES[name]
    shapes = [
        ", ".join(f"{letter}{k}" if dynamic else str(n) for k, n in enumerate(shape))
        for letter, shape in (("d", data), ("i", indices))
    ]
    if operator == "GatherND":  # how many dimensions are indexed is known in any case
        shapes[1] = ", ".join([*shapes[1].split(", ")[:-1], str(indices[-1])])
    attribute = ATTRIBUTES[operator]
    return parsed(
        f"g (float[{shapes[0]}] data, {index_type}[{shapes[1]}] i) => (y)"
        f"{{ y = {operator} <{attribute} = {number}> (data, i) }}"
    )


@pytest.mark.parametrize("name", one_quick_in(13, NODES))
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("policy", ["clamp", "zero", "directml"])
def test_a_hardened_gather_does_with_any_index_what_the_policy_says(
    name: str, dynamic: bool, policy: OutOfRange
) -> None:
    operator, number, data_shape, shape = NODES[name]
    data = np.random.default_rng(1).normal(size=data_shape).astype(np.float32)
    data.flat[0] = -0.0
    given = {"data": data_shape, "i": shape} if policy == "directml" else None
    for index_type in ("int64", *(["int32"] if operator != "GatherND" else [])):
        model, done = hardened(node_model(name, index_type, dynamic), policy, given)
        assert len(done) == 1
        gather = gather_of_node(operator, data_shape, shape, number)
        types = ("FLOAT32", index_type.upper(), "FLOAT32")
        desc = gather.descriptor(list(map(og.TensorDesc, types, gather.tensor_sizes())))
        run = opened(model)
        for seed in range(20):
            indices = wild(shape, index_type, seed)
            (found,) = run(data=data, i=indices)
            first = data.reshape(desc.input_tensor.sizes)
            second = indices.reshape(desc.indices_tensor.sizes)
            expected = og.reference(desc, first, second, policy).reshape(gather.output)
            assert found.shape == expected.shape
            assert found.tobytes() == expected.tobytes(), (indices, found, expected)


NESTED = parsed(
    """
g (int64[n, 3] ids, bool yes, int64 times, float[k, 3] rows) => (a, b, c, d, e)
<float[5, 4] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19},
 int64[2] fixed = {0, -2}>
{
  a = Gather (table, ids)
  b = If (yes) <
    then_branch = t () => (x) { [same] x = Gather (table, ids) },
    else_branch = f () => (z) { w = Gather <axis = 1> (table, ids)
                                z = Transpose <perm = [1, 2, 0]> (w) } >
  c = Loop (times, yes, ids) <
    body = l (int64 i, bool on, int64[n, 3] j) => (again, j2)
      { again = Identity (on)
        [same] x2 = Gather (table, j)
        j2 = Identity (j) } >
  d = own.pick (rows, ids)
  e0 = own.pick (table, ids)
  e = Gather (e0, fixed)
}
<domain: "own", opset_import: ["" : 17]>
pick (t, i) => (o) { o1 = Gather (t, i)
  o = Identity (o1) }
""",  # noqa: E501
    IMPORTS,
)
"""Gathers in the main graph, in both branches of an If, in a Loop and in a function
called twice, once with data of other sizes; most have no name, two share one."""


def inputs_of_nested(seed: int, inside: bool) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    ids = random.integers(-2, 2, (2, 3)) if inside else wild((2, 3), np.int64, seed)
    rows = random.normal(size=(int(random.integers(2, 4)), 3)).astype(np.float32)
    return {
        "ids": ids,
        "yes": np.array(seed % 2 == 0),
        "times": np.array(2),
        "rows": rows,
    }


def test_gathers_in_subgraphs_and_functions_do_not_fail() -> None:
    policies: list[OutOfRange] = ["clamp", "zero"]
    for policy in policies:
        model, done = hardened(NESTED, policy)
        assert [(one.place, one.node) for one in done] == [
            ("main graph", "a"),
            ("then_branch of b", "same"),
            ("else_branch of b", "w"),
            ("body of c", "same"),
            ("function pick, called by d", "o1"),
        ]
        for optimized in (False, True):
            run, original = opened(model, optimized), opened(NESTED, optimized)
            for seed in range(20):
                run(**inputs_of_nested(seed, inside=False))
                given = inputs_of_nested(seed, inside=True)
                pairs = zip(original(**given), run(**given), strict=True)
                assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def kept(nodes: Any, added: Sequence[str], gathers: Sequence[str]) -> list[bytes]:
    """Return the bytes of the nodes that were not added; of a gather without its
    inputs."""
    found: list[bytes] = []
    for node in nodes:
        if node.output[0] in added:
            continue
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        if copy.output[0] in gathers:
            del copy.input[:]
        for attribute in copy.attribute:
            if attribute.HasField("g"):
                found += kept(attribute.g.node, added, gathers)
                found += [part.SerializeToString() for part in attribute.g.input]
                attribute.ClearField("g")
        found.append(copy.SerializeToString(deterministic=True))
    return found


def names_in(nodes: Any) -> list[str]:
    """Return every output of nodes and of those in their bodies."""
    inner = (names_in(a.g.node) for node in nodes for a in node.attribute)
    return [name for node in nodes for name in node.output] + [
        n for many in inner for n in many
    ]


def test_every_part_that_is_not_rewritten_keeps_its_bytes_and_its_order() -> None:
    model, _ = hardened(NESTED)
    gathers = ["a", "x", "w", "x2", "o1"]
    before, after = (
        [
            *one.graph.node,
            *(node for function in one.functions for node in function.node),
        ]
        for one in (NESTED, model)
    )
    added = sorted({*names_in(after)} - {*names_in(before)})
    assert len(added) == 37
    assert all(name.startswith(("a/", "same/", "w/", "o1/")) for name in added)
    assert kept(after, added, gathers) == kept(before, [], gathers)
    for own in (model, old := onnx.ModelProto.FromString(NESTED.SerializeToString())):
        del own.graph.node[:]
        for function in own.functions:
            del function.node[:]
    assert model.SerializeToString(deterministic=True) == old.SerializeToString(
        deterministic=True
    )


def message(model: onnx.ModelProto) -> str:
    """Return the error that hardening a model as DirectML raises."""
    with pytest.raises(og.OnnxGatherError) as raised:
        hardened(model, "directml")
    return str(raised.value)


def left(model: onnx.ModelProto, policy: OutOfRange = "clamp") -> str:
    """Return what is said of the only gather of a model, which is left as it is."""
    done = rewritten(model, policy)
    (one,) = done.left
    assert (done.rewritten, done.model) == ([], model)
    return str(one)


def test_what_is_not_known_of_a_gather_is_refused_or_leaves_it() -> None:
    dynamic = node_model("gather", "int64", dynamic=True)
    assert (
        message(dynamic)
        == "main graph: Gather 'y': the type and sizes of the data must be known for"
        " directml: add `--shape NAME=2,12` for an input"
    )
    flags = parsed("g (bool[3] data, int64[2] i) => (y) { y = Gather (data, i) }")
    assert (
        message(flags)
        == "main graph: Gather 'y': DataType must be one of FLOAT64, FLOAT32, FLOAT16,"
        " INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16, UINT8, got 'BOOL'"
    )
    text = parsed("g (string[3] data, int64[2] i) => (y) { y = Gather (data, i) }")
    assert (
        left(text, "zero")
        == "left: main graph: Gather 'y': zeros need data of a known rank and of a type"
        " that numpy has"
    )
    tuples = parsed(
        "g (float[3, 4] data, int64[2, n] i) => (y) { y = GatherND (data, i) }"
    )
    assert (
        left(tuples)
        == "left: main graph: GatherND 'y': the last size of the indices must be known,"
        " but is not"
    )
    far = parsed(
        "g (float[3, 4] data, int64[2] i) => (y) { y = Gather <axis = -9> (data, i) }"
    )
    assert (
        left(far)
        == "left: main graph: Gather 'y': the data must have the dimensions that are"
        " indexed, got -9"
    )
    long = parsed(
        "g (float[3, 4] data, int64[2, 5] i) => (y) { y = GatherND (data, i) }"
    )
    assert (
        left(long)
        == "left: main graph: GatherND 'y': the data must have the dimensions that are"
        " indexed, got 0 to 4"
    )
    old = parsed(
        "g (float[3] data, int64[2] i) => (y) { y = Gather (data, i) }",
        'ir_version: 8, opset_import: ["" : 8]',
    )
    assert (
        left(old)
        == "left: main graph: Gather 'y': the opset must be at least 9 for the index"
        " arithmetic, got 8; onnx.version_converter makes a newer model"
    )
    axes = parsed(
        """g (float[3, 4] data, int64[2] i) => (y, z) {
  y = own.pick <axis = 0> (data, i)
  z = own.pick <axis = 1> (data, i) }
<domain: "own", opset_import: ["" : 17]>
pick <axis> (t, i) => (o) { o = Gather <axis: int = @axis> (t, i) }""",
        IMPORTS,
    )
    assert (
        left(axes)
        == "left: function pick, called by y: Gather 'o': axis must be the same in all"
        " calls of the function, got 0, 1"
    )


def test_an_opset_that_is_too_old_does_not_matter_where_nothing_is_rewritten() -> None:
    model = parsed(
        "g (float[3] data) => (y) <int64[1] i = {2}> { y = Gather (data, i) }",
        'ir_version: 8, opset_import: ["" : 8]',
    )
    assert hardened(model) == (model, [])


def test_a_gather_of_data_of_unknown_rank_is_left() -> None:
    model = parsed(
        """g (float[a, b] data, int64[c] i) => (y) {
  j = other.Unknown (data)
  y = Gather (j, i) }""",
        'ir_version: 8, opset_import: ["" : 17, "other" : 1]',
    )
    assert (
        left(model) == "left: main graph: Gather 'y': the rank of the data is unknown"
    )


@pytest.mark.parametrize("index_type", ["int64", "int32"])
def test_indices_of_unknown_rank_are_limited(index_type: str) -> None:
    model = parsed(f"""g (float[a, b] data, {index_type}[c] i, int64[k] shape) => (y) {{
  j = Reshape (i, shape)
  y = Gather (data, j) }}""")
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    fed = {"data": data, "i": wild((50,), index_type), "shape": np.array([5, 10])}
    (found,) = outputs(hardened(model)[0], **fed)
    expected = np.take(data, np.clip(wild((5, 10), index_type), -3, 2), 0)
    assert found.tobytes() == expected.tobytes()


def test_strings_and_flags_are_gathered_too() -> None:
    for element, array in (("string", ["a", "b", "c"]), ("bool", [True, False, True])):
        model = parsed(
            f"g ({element}[n] data, int64[2] i) => (y) {{ y = Gather (data, i) }}"
        )
        (found,) = outputs(
            hardened(model)[0], data=np.array(array), i=np.array([-9, 9])
        )
        assert found.tolist() == [array[0], array[2]]
    zeroed = hardened(model, "zero")[0]
    assert outputs(zeroed, data=np.array(array), i=np.array([0, 9]))[0].tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("policy", ["clamp", "zero"])
@pytest.mark.parametrize("sizes", ["4, 3", "n, m", "n, 3"])
def test_data_of_gather_elements_is_cropped_as_directml_asks(
    policy: OutOfRange, sizes: str
) -> None:
    model = parsed(
        f"g (float[{sizes}] data, int64[2, k] i) => (y) {{ y = GatherElements <axis=1>"
        " (data, i) }"
    )
    data = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    shapes = {"data": (4, 3), "i": (2, 5)}
    rewritten, (told,) = hardened(model, policy, shapes)
    assert "Slice" in [node.op_type for node in rewritten.graph.node]
    assert (
        told.changes[1]
        == "the data is cropped to the sizes of the indices in dimension 0, as DirectML"
        " refuses more data than indices off the axis"
    )
    inside = np.random.default_rng(1).integers(-3, 3, (2, 5))
    (found,) = outputs(rewritten, data=data, i=inside)
    assert found.tobytes() == outputs(model, data=data, i=inside)[0].tobytes()
    outputs(rewritten, data=data, i=wild((2, 5), np.int64))


def test_data_is_cropped_although_the_indices_are_proved() -> None:
    model = parsed(
        "g (float[4, 3] data) => (y) <int64[2, 1] i = {2, -3}> "
        "{ y = GatherElements <axis = 1> (data, i) }"
    )
    rewritten, (told,) = hardened(model)
    operators = [node.op_type for node in rewritten.graph.node]
    assert operators == ["Constant"] * 2 + ["Slice", "GatherElements"]
    assert len(told.changes) == 1
    assert hardened(rewritten) == (rewritten, [])


def test_gather_elements_of_two_ranks_is_no_traceback() -> None:
    model = parsed("""g (int64[3, 4] i) => (y) <float[5] data = {1, 2, 3, 4, 5}>
{ y = GatherElements (data, i) }""")
    assert hardened(model)[0].graph.node[-1].op_type == "GatherElements"


def test_names_that_are_made_up_collide_with_none() -> None:
    model = parsed("""
g (int64[2] i, float[5] data) => (y, z) {
  taken = Identity (i)
  [gather] y = Gather (data, taken)
  z = Identity (data)
}""")
    model.graph.node[0].output[0] = model.graph.node[1].input[1] = (
        "gather/indices_clamped"
    )
    rewritten, _ = hardened(model)
    names = [name for node in rewritten.graph.node for name in node.output]
    assert names == [
        "gather/indices_clamped",
        "gather/first_index",
        "gather/last_index",
        "gather/indices_float32",
        "gather/indices_clamped_2",
        "gather/indices_in_range",
        "y",
        "z",
    ]
    assert outputs(
        rewritten, i=np.array([-9, 2**40]), data=np.arange(5, dtype=np.float32)
    )[0].tolist() == [0, 4]


def test_a_hardened_model_says_why_each_node_is_there() -> None:
    model, (told,) = hardened(node_model("gather", "int64", dynamic=False))
    nodes = [
        (n.op_type, n.name, n.doc_string)
        for n in model.graph.node
        if n.op_type != "Constant"
    ]
    assert nodes == [
        (
            "Cast",
            "y/indices_float32",
            "keeps the order and every bound, unlike Less, Min, Max and Clip of INT64",
        ),
        (
            "Clip",
            "y/indices_clamped",
            "clamps to the axis; negative indices stay and count from its end",
        ),
        ("Cast", "y/indices_in_range", "the type of the indices"),
        ("Gather", "", ""),
    ]
    assert (
        str(told)
        == "main graph: Gather 'y': an index outside [-5, 5) was an error, and now the"
        " output holds the elements at the clamped indices"
    )
