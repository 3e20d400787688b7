"""A gather of any ONNX model becomes a case: its descriptor, and what it gets in a
run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from agreement import EXAMPLES
from command_line import POSIX
from hypothesis import given, settings
from messages import message_of
from onnx import TensorProto, helper, numpy_helper
from rings import one_quick_in
from short_descriptors import descriptor, tensor_desc
from strategies import cases
from stub_runtime import environment

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.extracting import extract as extraction

DATA = np.arange(20, dtype=np.float32).reshape(5, 4)
IDS = np.array([3, 1, 0])


def case_of_node(
    path: str, name: str, inputs: Mapping[str, Array], timeout: float = 60
) -> Case:
    """Return the case of a node."""
    return extraction.case_of_node(path, inputs, name, timeout)


def node(
    operator: str, inputs: Sequence[str], output: str, name: str = "", **more: Any
) -> Any:
    """Return a node of one output."""
    return helper.make_node(operator, inputs, [output], name, **more)


def constant(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def save(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[Any] | None]] | None = None,
    constants: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
    **more: Any,
) -> str:
    """Write a model and return its path."""
    values = [
        helper.make_tensor_value_info(n, *said) for n, said in (inputs or {}).items()
    ]
    outputs = [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "g", values, outputs, constants)
    opsets = [onnx.OperatorSetIdProto(version=opset)]
    model = helper.make_model(graph, opset_imports=opsets, **{"ir_version": 8, **more})
    path = str(folder / "model.onnx")
    Path(path).write_bytes(model.SerializeToString())
    return path


Said = tuple[int, Sequence[Any] | None]
IDS_INPUT: dict[str, Said] = {"ids": (TensorProto.INT64, ["n"])}
YES: Said = (TensorProto.BOOL, [])
GATHER = node("Gather", ["table", "ids"], "rows", "gather")
TABLE = constant("table", DATA)
TABLE_TENSOR = tensor_desc("FLOAT32 5x4")


def make_external(path: str, location: str) -> None:
    """Move the initializers of a model to a file beside it."""
    library: Any = onnx
    model = library.load(path)
    options = {"save_as_external_data": True, "location": location, "size_threshold": 0}
    library.save_model(model, path, **options)


def refusal(path: str, name: str, inputs: Mapping[str, Array] | None = None) -> str:
    """Return what is wrong, without the path and the main graph."""
    return (
        message_of(OnnxGatherError, case_of_node, path, name, inputs or {})
        .replace(f"{path}: ", "")
        .replace("main graph: ", "")
    )


def output(case: Case) -> Array:
    expected = case.expected()
    assert not isinstance(expected, str)
    return expected


class TestDescriptors:
    def test_gather_pads_to_the_largest_rank(self, tmp_path: Path) -> None:
        gather = node("Gather", ["table", "ids"], "rows", "gather", axis=-1)
        case = case_of_node(
            save(tmp_path, [gather], IDS_INPUT, [TABLE]), "gather", {"ids": IDS}
        )
        assert isinstance(case, DescriptorCase)
        assert case.descriptor == og.GatherDesc(
            TABLE_TENSOR,
            tensor_desc("INT64 1x3"),
            tensor_desc("FLOAT32 5x3"),
            axis=1,
            index_dimensions=1,
        )
        assert output(case).tolist() == DATA[:, [3, 1, 0]].tolist()
        assert case.name == f"{tmp_path / 'model.onnx'}: main graph: node 'gather'"
        assert case.out_of_range == "error"

    @pytest.mark.parametrize(
        ("operator", "attributes", "ids", "expected"),
        [
            (
                "Gather",
                {},
                np.array(-2),
                og.GatherDesc(
                    TABLE_TENSOR,
                    tensor_desc("INT64 1x1"),
                    tensor_desc("FLOAT32 1x4"),
                    axis=0,
                    index_dimensions=0,
                ),
            ),
            (
                "GatherElements",
                {"axis": 1},
                np.array([[1]] * 5, np.int32),
                og.GatherElementsDesc(
                    TABLE_TENSOR,
                    tensor_desc("INT32 5x1"),
                    tensor_desc("FLOAT32 5x1"),
                    axis=1,
                ),
            ),
            (
                "GatherND",
                {"batch_dims": 1},
                np.array([[[1]]] * 5),
                descriptor(
                    "GATHER_ND1: FLOAT32 1x5x4, INT64 5x1x1, FLOAT32 1x5x1, 2, 3, 1"
                ),
            ),
        ],
    )
    def test_each_operator_has_its_descriptor(
        self,
        tmp_path: Path,
        operator: str,
        attributes: dict[str, int],
        ids: Array,
        expected: og.Descriptor,
    ) -> None:
        gather = node(operator, ["table", "ids"], "rows", "gather", **attributes)
        path = save(tmp_path, [gather], {}, [TABLE, constant("ids", ids)])
        case = case_of_node(path, "gather", {})
        assert isinstance(case, DescriptorCase)
        assert case.descriptor == expected

    def test_what_onnx_forbids_is_a_forbidden_node(self, tmp_path: Path) -> None:
        gather = node("GatherND", ["table", "ids"], "rows", "gather", batch_dims=1)
        path = save(
            tmp_path, [gather], {}, [TABLE, constant("ids", np.zeros((3, 1), np.int64))]
        )
        case = case_of_node(path, "gather", {})
        assert isinstance(case, NodeCase)
        assert (case.node.operator, case.node.attributes) == (
            "GatherND",
            {"batch_dims": 1},
        )
        assert case.node.output_shape == (3,)
        assert (
            case.node.rule
            == "the first batch_dims (1) sizes of indices must be those of data, [5],"
            " got [3]"
        )

    def test_a_node_that_no_descriptor_says_is_refused(self, tmp_path: Path) -> None:
        ids = constant("ids", np.zeros((2, 1), np.int64))
        gather = node("GatherElements", ["table", "ids"], "rows", "gather", axis=1)
        assert (
            refusal(save(tmp_path, [gather], {}, [TABLE, ids]), "gather")
            == "node 'gather': IndicesTensor.Sizes[0] must be InputTensor.Sizes[0] (5),"
            " as it is not at Axis, got 2"
        )
        empty = constant("ids", np.zeros(0, np.int64))
        assert (
            refusal(save(tmp_path, [GATHER], {}, [TABLE, empty]), "gather")
            == "node 'gather': Sizes[1] must be at least 1, got 0"
        )

    @pytest.mark.slow
    @settings(max_examples=EXAMPLES // 50)  # each starts a worker
    @given(cases(wild=False, packed=True))
    def test_the_node_of_a_descriptors_model_computes_the_same(
        self, tmp_path_factory: Any, case: Any
    ) -> None:
        model = og.to_onnx(case.desc, "error")
        gather = next(n for n in model.graph.node if n.op_type.startswith("Gather"))
        path = str(tmp_path_factory.mktemp("law") / "model.onnx")
        Path(path).write_bytes(model.SerializeToString())
        inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
        found = case_of_node(path, gather.name, inputs)
        assert (
            output(found).tobytes()
            == og.reference(case.desc, case.data, case.indices).tobytes()
        )


class TestWhereTheArraysComeFrom:
    def test_inputs_that_other_nodes_compute_are_computed(self, tmp_path: Path) -> None:
        nodes = [
            node("Constant", [], "one", value=constant("one", 1)),
            node("Transpose", ["table"], "turned"),
            node("Sub", ["ids", "one"], "moved"),
            node("Gather", ["turned", "moved"], "rows", "gather"),
            node("Log", ["ids"], "unrelated"),
        ]
        case = case_of_node(
            save(tmp_path, nodes, IDS_INPUT, [TABLE]), "gather", {"ids": IDS}
        )
        assert case.data.tolist() == DATA.T.tolist()
        assert case.indices.tolist() == [[2, 0, -1]]

    @pytest.mark.parametrize("opset", one_quick_in(3, [1, 7, 13]))
    def test_inputs_computed_by_old_operator_sets_are_computed(
        self, tmp_path: Path, opset: int
    ) -> None:
        nodes = [
            node("Transpose", ["table"], "turned"),
            node("Gather", ["turned", "ids"], "rows"),
        ]
        inputs = {"ids": (TensorProto.INT64, [3]), "table": (TensorProto.FLOAT, [5, 4])}
        path = save(tmp_path, nodes, inputs, [TABLE], opset, ir_version=3)
        case = case_of_node(path, "rows", {"ids": IDS})
        assert output(case).tolist() == DATA.T[IDS].tolist()
        given_table = case_of_node(path, "rows", {"ids": IDS, "table": DATA + 1})
        assert output(given_table).tolist() == (DATA.T[IDS] + 1).tolist()

    def test_any_value_may_be_given(self, tmp_path: Path) -> None:
        nodes = [
            node("Identity", ["ids"], "kept"),
            node("Neg", ["kept"], "moved"),
            node("Gather", ["table", "moved"], "rows", "gather"),
        ]
        path = save(tmp_path, nodes, IDS_INPUT, [TABLE])
        for name, wanted in (("kept", [[-3, -1, 0]]), ("moved", [[3, 1, 0]])):
            assert case_of_node(path, "gather", {name: IDS}).indices.tolist() == wanted

    def test_branches_that_lead_there_see_the_outer_values(
        self, tmp_path: Path
    ) -> None:
        body = [node("Neg", ["ids"], "turned")]
        turned = helper.make_graph(
            body, "turned", [], [onnx.ValueInfoProto(name="turned")]
        )
        nodes = [
            node("If", ["yes"], "moved", then_branch=turned, else_branch=turned),
            node("Gather", ["table", "moved"], "rows"),
        ]
        inputs = {**IDS_INPUT, "yes": YES}
        path = save(tmp_path, nodes, inputs, [TABLE])
        found = case_of_node(path, "rows", {"ids": IDS, "yes": np.array(True)})
        assert found.indices.tolist() == [[-3, -1, 0]]

    @pytest.mark.slow
    def test_external_data_is_found_beside_the_model(self, tmp_path: Path) -> None:
        nodes = [
            node("Transpose", ["table"], "turned"),
            node("Gather", ["turned", "ids"], "other"),
        ]
        path = save(tmp_path, [GATHER, *nodes], IDS_INPUT, [TABLE])
        make_external(path, "data")
        assert case_of_node(path, "gather", {"ids": IDS}).data.tolist() == DATA.tolist()
        path = save(tmp_path, nodes, IDS_INPUT, [TABLE])
        assert (
            case_of_node(path, "other", {"ids": IDS}).data.tolist() == DATA.T.tolist()
        )
        Path(tmp_path, "data").unlink()
        make_external(path, "more")
        Path(tmp_path, "more").write_bytes(b"")
        assert refusal(path, "other", {"ids": IDS}).startswith(
            "node 'other': turned fails: "
        )

    def test_the_nodes_before_the_gather_must_run(self, tmp_path: Path) -> None:
        nodes = [
            node("Split", ["ids"], "moved"),
            node("Gather", ["table", "moved"], "rows", "g"),
        ]
        path = save(tmp_path, nodes, IDS_INPUT, [TABLE], opset=17)
        nodes[0].op_type = "NoSuchOperator"
        path = save(tmp_path, nodes, IDS_INPUT, [TABLE], opset=17)
        start = "node 'g': moved fails: "
        assert refusal(path, "g", {"ids": IDS}).startswith(start)


class TestRefusals:
    def test_a_name_of_no_gather_is_refused(self, tmp_path: Path) -> None:
        twice = [
            node("Gather", ["table", "ids"], "a", "same"),
            node("Gather", ["table", "ids"], "b", "same"),
            node("Neg", ["a"], "c", "neg"),
            node("Gather", ["table", "ids"], "d", domain="of.others"),
        ]
        path = save(tmp_path, twice, IDS_INPUT, [TABLE])
        assert refusal(path, "same", {"ids": IDS}) == "--node must be one of 'a', 'b'"
        for name in ("neg", "other", "", "d"):
            assert (
                refusal(path, name)
                == f"node {name!r} must be one of the model's 2 gathers"
            )
        path = save(
            tmp_path, [node("Gather", ["table", "ids"], "lookup")], IDS_INPUT, [TABLE]
        )
        assert (
            refusal(path, "lokup")
            == "node 'lokup' must be one of the model's 1 gathers; did you mean"
            ' "lookup"?'
        )
        path = save(tmp_path, [node("Neg", ["ids"], "n")], IDS_INPUT)
        assert refusal(path, "gather") == "the model must have a gather, got none"

    def test_a_gather_inside_another_node_needs_what_leads_to_that_node(
        self, tmp_path: Path
    ) -> None:
        body = helper.make_graph(
            [GATHER], "body", [], [onnx.ValueInfoProto(name="rows")]
        )
        function = helper.make_function(
            "of.mine",
            "Rows",
            ["table", "ids"],
            ["rows"],
            [GATHER],
            [helper.make_opsetid("", 17)],
        )
        choose = node(
            "If", ["yes"], "out", "choose", then_branch=body, else_branch=body
        )
        call = node("Rows", ["table", "kept"], "out", "call", domain="of.mine")
        for outer, where in (
            (choose, "then_branch of choose"),
            (call, "function Rows, called by"),
        ):
            nodes = [
                node("Identity", ["ids"], "kept"),
                node("Neg", ["rest"], "unrelated"),
                outer,
            ]
            rest: dict[str, Said] = {
                **IDS_INPUT,
                "yes": YES,
                "rest": (TensorProto.FLOAT, None),
            }
            path = save(tmp_path, nodes, rest, [TABLE], functions=[function])
            case = case_of_node(path, "gather", {"ids": IDS, "yes": np.array(True)})
            assert where in case.name
            assert case.indices.tolist() == [IDS.tolist()]

    TYPES = (
        "FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16,"
        " UINT8"
    )

    @pytest.mark.parametrize("data_type", one_quick_in(2, ["BOOL", "STRING"]))
    def test_a_data_type_that_directml_lacks_is_refused(
        self, tmp_path: Path, data_type: str
    ) -> None:
        inputs: dict[str, Said] = {
            **IDS_INPUT,
            "table": (getattr(TensorProto, data_type), [5, 4]),
        }
        table = DATA.astype(bool if data_type == "BOOL" else str)
        path = save(tmp_path, [GATHER], inputs)
        assert (
            refusal(path, "gather", {"ids": IDS, "table": table})
            == "node 'gather': data must be of a type that DirectML gathers"
            f" ({self.TYPES}), got {data_type}"
        )

    def test_a_data_type_that_only_running_tells_is_refused(
        self, tmp_path: Path
    ) -> None:
        nodes = [node("Cast", ["table"], "cast", to=TensorProto.BOOL), GATHER]
        nodes[1] = node("Gather", ["cast", "ids"], "rows", "gather")
        path = save(tmp_path, nodes, IDS_INPUT, [TABLE])
        assert (
            refusal(path, "gather", {"ids": IDS})
            == "node 'gather': data must be of a type that DirectML gathers"
            f" ({self.TYPES}), got BOOL"
        )

    def test_inputs_that_do_not_fit_the_model_are_refused(self, tmp_path: Path) -> None:
        inputs: dict[str, Said] = {
            "ids": (TensorProto.INT64, ["n", 3]),
            "rest": (TensorProto.FLOAT, None),
        }
        nodes = [node("Neg", ["rest"], "n"), GATHER]
        path = save(tmp_path, nodes, inputs, [TABLE])
        assert (
            refusal(path, "gather")
            == "the inputs must hold an array for each input of the model, got none for"
            " 'ids'; give --inputs FILE.npz"
        )
        ids = np.zeros((2, 3), np.int64)
        assert case_of_node(path, "gather", {"ids": ids}).indices.shape == (1, 2, 3)
        for wrong in (ids.astype(np.int32), ids[:, :2], ids[0]):
            assert (
                refusal(path, "gather", {"ids": wrong})
                == f"input 'ids' must be INT64 [?, 3], got {wrong.dtype}"
                f" {list(wrong.shape)}"
            )
        assert (
            refusal(path, "gather", {"ids": ids, "idx": ids})
            == "the given inputs hold 'idx', but the model's inputs are 'ids', 'rest'"
        )
        assert (
            refusal(path, "gather", {"ids": ids, "rest": ids})
            == "input 'rest' must be FLOAT, got int64 [2, 3]"
        )

    def test_a_file_that_is_no_model_is_refused(self, tmp_path: Path) -> None:
        path = str(tmp_path / "model.onnx")
        assert refusal(path, "gather") == "no such file or directory"
        Path(path).write_text("no model")
        assert (
            refusal(path, "gather")
            == "must be an ONNX model, got bytes that are cut short, or no model"
        )
        Path(path).write_bytes(b"")
        assert (
            refusal(path, "gather")
            == "must be an ONNX model with nodes, got an empty file"
        )


def _type_99(model: Any) -> None:
    model.graph.initializer[0].data_type = 99


def _input_of_type_99(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 99


def _attribute(*values: float) -> Callable[[Any], None]:
    """Give the gather these axes."""

    def change(model: Any) -> None:
        for value in values:
            model.graph.node[-1].attribute.append(helper.make_attribute("axis", value))

    return change


def _of_gather(**fields: list[str]) -> Callable[[Any], None]:
    """Give the gather other inputs or outputs."""

    def change(model: Any) -> None:
        for name, values in fields.items():
            getattr(model.graph.node[-1], name)[:] = values

    return change


def _of_table(**fields: Any) -> Callable[[Any], None]:
    """Give the table's initializer other sizes or bytes."""

    def change(model: Any) -> None:
        table = model.graph.initializer[0]
        for name, value in fields.items():
            if name == "dims":
                table.dims[:] = value
            else:
                setattr(table, name, value)

    return change


def _external(**fields: str) -> Callable[[Any], None]:
    """Put the table into a file of 80 bytes beside the model, or somewhere else."""

    def change(model: Any) -> None:
        table = model.graph.initializer[0]
        table.ClearField("raw_data")
        table.data_location = TensorProto.EXTERNAL
        said = {"location": "data", "offset": "0", "length": "80", **fields}
        for key, value in said.items():
            table.external_data.add(key=key, value=value)

    return change


def _twice(model: Any) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def _not_text(model: Any) -> None:
    model.ParseFromString(model.SerializeToString().replace(b"moved", b"m\xffved"))


def _axis_not_text(model: Any) -> None:
    _attribute(1)(model)
    model.ParseFromString(model.SerializeToString().replace(b"axis", b"ax\xffs"))


def _external_not_text(model: Any) -> None:
    _external(location="data")(model)
    content = model.SerializeToString().replace(b"data", b"d\xffta")
    model.ParseFromString(content)


def _size_not_text(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "size"
    content = model.SerializeToString().replace(b"size", b"s\xffze")
    model.ParseFromString(content)


def _scalar_of_tuples(model: Any) -> None:
    model.graph.initializer.append(constant("scalar", np.int64(9)))
    model.graph.node[1].op_type = "GatherND"
    model.graph.node[1].input[1] = "scalar"


def _cycle(model: Any) -> None:
    model.graph.node[0].input[0] = "rows"


def _no_operator(model: Any) -> None:
    model.graph.node[0].ClearField("op_type")


def _no_opset(model: Any) -> None:
    del model.opset_import[:]


def _ir_version(number: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.ir_version = number

    return change


def _several_arrays(model: Any) -> None:
    model.graph.node[0].op_type = "SequenceConstruct"


ALLOWED = "node 'gather' must be one that ONNX allows"
AROUND = "must take values of its graph or of a graph around it"
TWO = "node 'gather' must have two inputs and one output"
UNREAD = "what leads to 'table' cannot be read: "
NO_NAME = "external data must be in a file with a name in UTF-8 without NUL"
CANNOT, GATHER_FAILS = "node 'gather': moved fails: ", "node 'gather': gather fails: "

BROKEN: list[tuple[Callable[[Any], None], str]] = [
    (_type_99, f"{UNREAD}its type must be one of ONNX's, got data type 99"),
    (_input_of_type_99, "input 'ids' must be data type 99 [?], got int64 [3]"),
    (_of_gather(input=[]), TWO),
    (_of_gather(input=["table", ""]), TWO),
    (_of_gather(input=["table", "no"]), f"node 'gather' {AROUND}, got 'no'"),
    (_of_gather(output=[]), TWO),
    (_attribute(1.5), ALLOWED),
    (_attribute(0, 1), ALLOWED),
    (_axis_not_text, ALLOWED),
    (_of_table(dims=[-1, 4]), f"{UNREAD}its sizes must be at least 0, got [-1, 4]"),
    (
        _of_table(dims=[2**62, 4]),
        f"{UNREAD}cannot reshape array of size 20 into shape (4611686018427387904,4)",
    ),
    (
        _of_table(raw_data=b"123"),
        f"{UNREAD}buffer size must be a multiple of element size",
    ),
    (
        _of_table(raw_data=b""),
        f"{UNREAD}cannot reshape array of size 0 into shape (5,4)",
    ),
    (_external(location="/etc/passwd"), UNREAD),
    (_external(location="../data"), UNREAD),
    (_external(location="none"), UNREAD),
    (_external(location=""), UNREAD),
    (_external(location="a\0b"), f"{NO_NAME}, got 'a\\x00b'"),
    (_external_not_text, f"{NO_NAME}, got b'd\\xffta'"),
    (_external(offset="-4"), UNREAD),
    (_external(offset="x"), f"{UNREAD}invalid literal for int() with base 10: 'x'"),
    (_external(length="84"), UNREAD),
    (_external(length="79"), UNREAD),
    (_twice, "name 'table' must be of one value, got 2"),
    (_not_text, "name b'm\\xffved' must be UTF-8"),
    (_size_not_text, "name b's\\xffze' must be UTF-8"),
    (
        _scalar_of_tuples,
        "node 'gather' must have indices with a dimension, got the scalar 'scalar'",
    ),
    (_cycle, "a value must not lead to itself, got 'moved', 'rows', 'moved'"),
    (_no_operator, CANNOT),
    (_no_opset, "opset_import must name the version of ai.onnx, got none"),
    (_ir_version(2**31), "ir_version must be an integer from 0 to 14, got 2147483648"),
    (_several_arrays, GATHER_FAILS),
]


class TestBrokenModels:
    NODES = (
        node("Neg", ["ids"], "moved"),
        node("Gather", ["table", "moved"], "rows", "gather"),
    )

    @pytest.mark.parametrize(
        ("change", "said"),
        one_quick_in(12, BROKEN),
        ids=[f"{k}-{said[-30:]}" for k, (_, said) in enumerate(BROKEN)],
    )
    def test_a_broken_model_is_one_sentence(
        self, tmp_path: Path, change: Callable[[Any], None], said: str
    ) -> None:
        path = save(tmp_path, self.NODES, IDS_INPUT, [TABLE])
        tmp_path.joinpath("data").write_bytes(bytes(80))
        model = onnx.ModelProto.FromString(Path(path).read_bytes())
        change(model)
        Path(path).write_bytes(model.SerializeToString())
        found = refusal(path, "gather", {"ids": IDS})
        assert found.startswith(said)
        assert "\n" not in found
        if not said.endswith(": "):  # the rest is onnx's or ONNX Runtime's
            assert found == said

    def test_a_model_of_more_than_2_gib_is_not_read(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        with path.open("wb") as file:
            file.truncate(3 << 30)
        assert refusal(str(path), "gather") == "must be an ONNX model of at most 2 GiB"

    @POSIX
    def test_a_model_is_a_file_as_a_device_may_have_no_end(
        self, tmp_path: Path
    ) -> None:
        rule = "must be a file, not a folder or a device"
        assert refusal(os.devnull, "gather") == rule
        assert refusal(str(tmp_path), "gather") == rule

    def test_a_path_that_no_file_can_have_is_refused(self) -> None:
        assert refusal("a\0b", "gather") == "a\\x00b: embedded null byte"

    def test_a_sparse_initializer_is_not_read(self, tmp_path: Path) -> None:
        path = save(tmp_path, [GATHER], IDS_INPUT, [])
        model = onnx.ModelProto.FromString(Path(path).read_bytes())
        values, where = (
            constant("table", np.ones(1, np.float32)),
            constant("where", np.array([3])),
        )
        model.graph.sparse_initializer.append(
            helper.make_sparse_tensor(values, where, [5])
        )
        Path(path).write_bytes(model.SerializeToString())
        said = "node 'gather': it did not run with these inputs"
        assert refusal(path, "gather", {"ids": IDS}) == said

    def test_odd_models_that_onnx_runtime_takes_are_read(self, tmp_path: Path) -> None:
        nodes = [
            node("Neg", ["ids"], "m\0"),
            node("Gather", ["table", "m\0"], "rows", "gather"),
        ]
        path = save(tmp_path, nodes, IDS_INPUT, [TABLE], ir_version=0)
        model = onnx.ModelProto.FromString(Path(path).read_bytes())
        del model.graph.output[:]
        model.graph.value_info.append(onnx.ValueInfoProto(name="m\0"))  # of no type
        Path(path).write_bytes(model.SerializeToString())
        assert case_of_node(path, "gather", {"ids": IDS}).indices.tolist() == [
            [-3, -1, 0]
        ]

    @pytest.mark.slow
    def test_a_gather_of_many_nodes_is_found_quickly(self, tmp_path: Path) -> None:
        chain = [node("Neg", [f"n{k}"], f"n{k + 1}") for k in range(30_000)]
        gather = node("Gather", ["table", "n30000"], "rows", "gather")
        path = save(tmp_path, [*chain, gather], {"n0": IDS_INPUT["ids"]}, [TABLE])
        start = time.process_time()
        assert case_of_node(path, "gather", {"n30000": IDS}).indices.tolist() == [
            [3, 1, 0]
        ]
        assert (
            refusal(path, "gather")
            == "the inputs must hold an array for each input of the model, got none for"
            " 'n0'; give --inputs FILE.npz"
        )
        assert time.process_time() - start < 10


class TestTheWorkerBefore:
    NODES = TestBrokenModels.NODES

    @pytest.mark.slow
    def test_nodes_that_do_not_end_meet_the_deadline(self, tmp_path: Path) -> None:
        body = helper.make_graph(
            [node("Identity", ["on"], "still"), node("Neg", ["v"], "w")],
            "body",
            [
                helper.make_tensor_value_info(name, data_type, shape)
                for name, data_type, shape in (
                    ("k", 7, []),
                    ("on", 9, []),
                    ("v", 7, ["n"]),
                )
            ],
            [
                helper.make_tensor_value_info("still", 9, []),
                helper.make_tensor_value_info("w", 7, ["n"]),
            ],
        )
        loop = node("Loop", ["count", "", "ids"], "moved", body=body)
        constants = [TABLE, constant("count", np.int64(2**62))]
        path = save(tmp_path, [loop, self.NODES[1]], IDS_INPUT, constants)
        with pytest.raises(OnnxGatherError) as caught:
            case_of_node(path, "gather", {"ids": IDS}, timeout=2)
        assert (caught.value.exit_code, str(caught.value)) == (
            3,
            (
                f"{path}: the model must run with the given inputs, but the worker did"
                " not answer within 2 s and printed nothing"
            ),
        )

    @POSIX
    @pytest.mark.parametrize(
        ("change", "code", "said"),
        one_quick_in(
            2,
            [
                (
                    (
                        "class InferenceSession:\n"
                        "    def __init__(*_, **__): os.kill(os.getpid(),"
                        " signal.SIGSEGV)"
                    ),
                    2,
                    (
                        "{}: main graph: node 'gather': moved fails: the worker died of"
                        " SIGSEGV and printed nothing"
                    ),
                ),
                (
                    "raise ImportError('no onnxruntime')",
                    3,
                    (
                        "the environment of CPUExecutionProvider does not contain"
                        " ONNX Runtime; install onnxruntime"
                    ),
                ),
            ],
        ),
    )
    def test_a_worker_that_cannot_is_one_sentence(
        self,
        tmp_path: Path,
        change: str,
        code: int,
        said: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        python = environment(
            tmp_path / "stub", f"PROVIDERS = ['CPUExecutionProvider']\n{change}"
        )
        path = save(tmp_path, self.NODES, IDS_INPUT, [TABLE])
        monkeypatch.setattr(sys, "executable", python)
        with pytest.raises(OnnxGatherError) as caught:
            case_of_node(path, "gather", {"ids": IDS})
        assert (caught.value.exit_code, str(caught.value)) == (
            code,
            said.format(path),
        )

    def test_a_worker_without_a_thread_for_it_does_not_start(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start(_: object) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr("threading.Thread.start", start)
        assert (
            message_of(
                og.ProviderError,
                og.audit,
                save(tmp_path, self.NODES, IDS_INPUT, [TABLE]),
                inputs={"ids": IDS},
            )
            == f"{sys.executable} does not start: can't start new thread"
        )

    def test_an_output_beyond_all_memory_is_one_sentence(self, tmp_path: Path) -> None:
        nodes = [node("ConstantOfShape", ["count"], "moved"), self.NODES[1]]
        path = save(
            tmp_path, nodes, IDS_INPUT, [TABLE, constant("count", np.array([2**40]))]
        )
        said = refusal(path, "gather", {"ids": IDS})
        assert said.startswith(CANNOT)
        # ONNX Runtime's own words, which differ by version.
        assert "Failed to allocate memory" in said or said.endswith("std::bad_alloc")
