"""Programs from any form: paths, dicts, models, and what is none of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import DATA_4X3, DESC, INDICES
from folders import MODELS
from messages import message_of
from onnx import version_converter
from own_models import merged_with_relu, stamped, with_wrong_bound
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.core.errors import FileFormatError, OnnxGatherError
from onnxgather.core.model.own import KEY, add_entry, drop_entries
from onnxgather.core.options import POLICIES, TARGETS, OutOfRange, Target
from onnxgather.core.programs.loading import load
from onnxgather.core.programs.writer import write_program


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


BARE = og.to_dict(DESC)
INSTEAD = (
    "onnxgather audit (in Python og.audit) lists its gathers, and onnxgather extract"
    " writes programs of them"
)
FOREIGN = (
    "must be a model that onnxgather wrote from a descriptor, got another model;"
    f" {INSTEAD}"
)
CHANGED = (
    "must be a model that onnxgather wrote from a descriptor, got one whose metadata"
    f" of onnxgather are of another graph; {INSTEAD}"
)
UNREADABLE = (
    "must be a model that onnxgather wrote from a descriptor, got one whose metadata"
    f" of onnxgather cannot be read; {INSTEAD}"
)


def save(model: onnx.ModelProto, path: str) -> None:
    Path(path).write_bytes(model.SerializeToString())


def read(path: str | Path) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(Path(path).read_bytes())


def refusal(source: Any) -> str:
    """The sentence with which a source is refused."""
    return message_of(OnnxGatherError, load, source)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_model_is_the_descriptor_that_it_was_made_from(
    policy: OutOfRange, target: Target
) -> None:
    program = load(og.to_onnx(DESC, policy, target))
    (dispatch,) = program.dispatches
    assert dispatch.name == "descriptor"
    assert dispatch.descriptor == DESC
    assert dispatch.out_of_range == policy
    assert (dispatch.data, dispatch.indices) == (None, None)
    assert program.model is not None
    assert program.model.target == target


@pytest.mark.parametrize("form", [str, Path, read])
def test_a_model_is_a_path_or_a_proto(form: Callable[[str], Any]) -> None:
    Path("m.onnx").write_bytes(og.to_onnx(DESC, "zero").SerializeToString())
    (dispatch,) = load(form("m.onnx")).dispatches
    assert (dispatch.descriptor, dispatch.out_of_range) == (DESC, "zero")


@pytest.mark.parametrize("form", [str, Path])
def test_a_program_has_what_its_dispatches_read(form: Callable[[str], Any]) -> None:
    Path("p.json").write_text(write_program(DESC, DATA_4X3, INDICES), encoding="utf-8")
    program = load(form("p.json"))
    assert program.path == "p.json"
    (dispatch,) = program.dispatches
    assert (dispatch.name, dispatch.descriptor) == ("gather", DESC)
    assert dispatch.out_of_range == "clamp"
    assert dispatch.data is not None
    assert dispatch.indices is not None
    assert dispatch.data.tobytes() == DATA_4X3.tobytes()
    assert dispatch.indices.tobytes() == INDICES.tobytes()


def test_a_dispatch_reads_what_an_earlier_one_writes() -> None:
    content = json.loads(write_program(DESC, DATA_4X3, INDICES))
    first, *_ = content["commands"]
    content["resources"]["wild"] = {
        "initialValuesDataType": "UINT32",
        "initialValues": [1, 7],
    }
    again = {**first, "bindings": {**first["bindings"], "IndicesTensor": "wild"}}
    content["commands"] = [again, first]
    program = load(content)
    indices = [dispatch.indices for dispatch in program.dispatches]
    assert [None if one is None else one.tolist() for one in indices] == [
        [[1, 7]],
        [[2, 0]],
    ]


def test_a_dict_may_be_a_program_a_descriptor_or_several() -> None:
    program = json.loads(write_program(DESC, DATA_4X3, INDICES))
    assert [one.name for one in load(program).dispatches] == ["gather"]
    (alone,) = load(BARE).dispatches
    assert (alone.name, alone.descriptor, alone.data) == ("descriptor", DESC, None)


def test_a_list_of_descriptors_has_their_numbers() -> None:
    Path("list.json").write_text(json.dumps([BARE, BARE]), encoding="utf-8")
    program = load("list.json")
    assert [one.name for one in program.dispatches] == ["1", "2"]
    assert {one.descriptor for one in program.dispatches} == {DESC}


def test_gathers_that_no_command_dispatches_come_last() -> None:
    content = json.loads(write_program(DESC, DATA_4X3, INDICES))
    gather = content["dispatchables"]["gather"]
    content["dispatchables"] = {"unused": gather, "gather": gather}
    found = load(content).dispatches
    assert [(one.name, one.data is None) for one in found] == [
        ("gather", False),
        ("unused", True),
    ]


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.json")), ids=lambda p: p.stem)
def test_the_models_of_the_repository_are_read_as_their_programs(path: Path) -> None:
    of_program = {one.descriptor for one in load(path).dispatches}
    (of_model,) = load(path.with_suffix(".onnx")).dispatches
    assert of_program == {of_model.descriptor}
    assert of_model.out_of_range == "clamp"


def test_names_and_prefixes_of_a_model_are_of_no_matter() -> None:
    names = {"InputTensor": "x", "IndicesTensor": "i", "OutputTensor": "y"}
    for model in (og.to_onnx(DESC, prefix="a/"), og.to_onnx(DESC, names=names)):
        (dispatch,) = load(model).dispatches
        assert dispatch.descriptor == DESC


def test_strides_are_read_back() -> None:
    strided = descriptor(
        "GATHER: FLOAT32 4x3 strides 1x4, UINT32 1x2 flags OWNED_BY_DML,"
        " FLOAT32 4x2 strides 3x1, 1, 1"
    )
    (dispatch,) = load(og.to_onnx(strided)).dispatches
    assert dispatch.descriptor == strided


class TestForeign:
    def test_a_model_of_others_is_told_apart(self) -> None:
        path = MODELS / "networks" / "keywords.onnx"
        assert refusal(path) == f"{path}: {FOREIGN}"
        assert refusal(read(path)) == f"the model: {FOREIGN}"

    def test_a_model_without_its_metadata_is_one_of_others(self) -> None:
        model = og.to_onnx(DESC)
        del model.metadata_props[:]
        assert refusal(model) == f"the model: {FOREIGN}"

    def test_a_model_that_was_changed_is_one_of_others(self) -> None:
        first = onnx.compose.add_prefix(og.to_onnx(DESC, "zero"), "a/")
        second = onnx.compose.add_prefix(og.to_onnx(DESC), "b/")
        two_of_ours = onnx.compose.merge_models(first, second, [])
        assert len([*two_of_ours.metadata_props]) == 2
        ours_and_a_relu = merged_with_relu(og.to_onnx(DESC))
        with_another_bound = with_wrong_bound(og.to_onnx(DESC))
        for model in (with_another_bound, ours_and_a_relu, two_of_ours):
            assert refusal(model) == f"the model: {CHANGED}"

    def test_a_native_model_without_its_functions_is_one_of_others(self) -> None:
        model = og.to_onnx(DESC, target="native")
        assert len(model.functions) == 1
        converted = version_converter.convert_version(model, 18)
        assert len(converted.functions) == 0
        save(converted, "n.onnx")
        assert refusal("n.onnx") == f"n.onnx: {CHANGED}"

    def test_a_model_with_constant_indices_is_one_of_others(self) -> None:
        assert refusal(og.to_onnx(DESC, indices=INDICES)) == f"the model: {FOREIGN}"

    def test_the_whole_of_a_program_names_its_program(self) -> None:
        Path("p.json").write_text(
            write_program(DESC, DATA_4X3, INDICES), encoding="utf-8"
        )
        save(og.program_to_onnx("p.json"), "w.onnx")
        assert (
            refusal("w.onnx")
            == "w.onnx: the model must be of one descriptor, got the whole program"
            " 'p.json'; give the program itself"
        )


DEEP = "[" * 100_000 + "]" * 100_000


class TestLies:
    """Metadata of any content, some with a digest that fits the graph."""

    @pytest.mark.parametrize(
        "value",
        [
            "",
            "null",
            "3",
            "[]",
            "[1, 2]",
            "{}",
            '"text"',
            "{",
            DEEP,
            "{" * 100_000,
            '{"digest": 3}',
            '{"digest": null}',
            '{"digest": "sha256:0", "descriptor": []}',
            '{"digest": "sha256:0", "out_of_range": "clap"}',
            '{"digest": "sha256:0", "target": 7}',
            "\udcff",
        ],
        ids=lambda value: value[:30].encode("unicode_escape").decode(),
    )
    def test_what_is_no_entry_of_ours_is_told(self, value: str) -> None:
        model = og.to_onnx(DESC)
        del model.metadata_props[:]
        content = value.encode("utf-8", "surrogateescape")
        # The wire form of a property, which holds any bytes.
        key = f"{KEY}0123456789abcdef".encode()
        prop = b"\x0a" + size_of(key) + key + b"\x12" + size_of(content) + content
        raw = model.SerializeToString() + b"\x72" + size_of(prop) + prop
        Path("m.onnx").write_bytes(raw)
        assert refusal("m.onnx") == f"m.onnx: {UNREADABLE}"

    def test_an_entry_that_is_of_no_descriptor_is_one_of_others(self) -> None:
        model = og.to_onnx(DESC)
        drop_entries(model)
        add_entry(model, {"out_of_range": "clamp"})
        assert refusal(model) == f"the model: {FOREIGN}"

    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"out_of_range": None}, FOREIGN),
            ({"descriptor": None}, FOREIGN),
            ({"out_of_range": "clap"}, UNREADABLE),
            ({"target": "gpu"}, UNREADABLE),
            ({"target": []}, UNREADABLE),
            ({"descriptor": 3}, UNREADABLE),
            ({"program": 3}, UNREADABLE),
            ({"descriptor": {}}, "its metadata: $.type is required"),
            (
                {"descriptor": {"type": "DML_OPERATOR_GATHER", "desc": 3}},
                "its metadata: $.desc must be an object, got 3",
            ),
            (
                {"descriptor": {"type": "DML_OPERATOR_RELU", "desc": {}}},
                (
                    "its metadata: $.type must be one of GATHER, GATHER_ELEMENTS,"
                    " GATHER_ND, GATHER_ND1, got 'DML_OPERATOR_RELU'"
                ),
            ),
            (
                {"program": "q.json\x1b[31m"},
                (
                    "the model must be of one descriptor, got the whole program"
                    " 'q.json\\x1b[31m'; give the program itself"
                ),
            ),
        ],
        ids=repr,
    )
    def test_a_lie_with_a_digest_that_fits_is_a_sentence(
        self, fields: dict[str, Any], sentence: str
    ) -> None:
        model = stamped(og.to_onnx(DESC), **fields)
        save(model, "m.onnx")
        assert refusal("m.onnx") == f"m.onnx: {sentence}"

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (
                "GATHER: FLOAT32 5x3, UINT32 1x2, FLOAT32 5x2, 1, 1",
                "the model's 'InputTensor' must be FLOAT32 [5, 3], as InputTensor of"
                " the descriptor is, got FLOAT32 [4, 3]",
            ),
            (
                "GATHER: FLOAT32 4x3, INT64 1x2, FLOAT32 4x2, 1, 1",
                "the model's 'IndicesTensor' must be INT64 [1, 2], as IndicesTensor of"
                " the descriptor is, got UINT32 [1, 2]",
            ),
        ],
    )
    def test_a_descriptor_of_other_tensors_names_the_metadata(
        self, other: str, message: str
    ) -> None:
        lie = og.to_dict(descriptor(other))
        save(stamped(og.to_onnx(DESC), descriptor=lie), "m.onnx")
        assert refusal("m.onnx") == f"m.onnx: its metadata: {message}"

    def test_a_descriptor_that_directml_refuses_names_the_metadata(self) -> None:
        wrong = og.to_dict(DESC)
        wrong["desc"]["Axis"] = 7
        save(stamped(og.to_onnx(DESC), descriptor=wrong), "m.onnx")
        message = message_of(og.DescriptorError, load, "m.onnx")
        assert message.startswith("m.onnx: its metadata: Axis must be ")

    def test_a_model_of_other_inputs_names_the_metadata(self) -> None:
        model = og.to_onnx(DESC)
        model.graph.input.append(onnx.helper.make_empty_tensor_value_info("more"))
        save(stamped(model), "m.onnx")
        assert (
            refusal("m.onnx")
            == "m.onnx: its metadata: the model must have 3 inputs and outputs, as the"
            " descriptor has tensors, got 4"
        )

    def test_an_open_dimension_names_the_metadata(self) -> None:
        model = og.to_onnx(DESC)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
        save(stamped(model), "m.onnx")
        assert (
            refusal("m.onnx")
            == "m.onnx: its metadata: the model's 'InputTensor' must be FLOAT32 [4, 3],"
            " as InputTensor of the descriptor is, got FLOAT32 [?, 3]"
        )


def size_of(content: bytes) -> bytes:
    """The length of a field in the wire form of protobuf: 7 bits a byte."""
    size = len(content)
    digits = bytearray()
    while size > 127:
        digits.append(size % 128 + 128)
        size //= 128
    digits.append(size)
    return bytes(digits)


class TestWrong:
    @pytest.mark.parametrize(
        ("source", "sentence"),
        [
            (3, "source must be a path, a dict or an onnx.ModelProto, got 3"),
            (None, "source must be a path, a dict or an onnx.ModelProto, got None"),
            (
                b"m.onnx",
                "source must be a path, a dict or an onnx.ModelProto, got b'm.onnx'",
            ),
            ("none.json", "none.json: no such file or directory"),
            ("none.onnx", "none.onnx: no such file or directory"),
            ({}, "the program: $.resources is required"),
            (
                {"type": "DML_OPERATOR_GATHER", "desc": {}},
                "the program: $.desc.InputTensor is required",
            ),
        ],
    )
    def test_what_cannot_be_read_is_a_sentence(
        self, source: object, sentence: str
    ) -> None:
        assert refusal(source) == sentence

    def test_a_list_of_nothing_is_a_sentence(self) -> None:
        Path("p.json").write_text("[]", encoding="utf-8")
        assert (
            refusal("p.json") == "p.json: $ must have a descriptor, got an empty array"
        )

    def test_data_that_are_too_large_are_told_where_they_are_asked_for(self) -> None:
        count = 10**9
        large = {"initialValues": {"valueCount": count, "value": 1}}
        content = json.loads(write_program(DESC, DATA_4X3, INDICES))
        content["resources"]["more"] = {"initialValuesDataType": "FLOAT32", **large}
        content["commands"].append({"type": "print", "resource": "more"})
        program = load(content)
        assert program.dispatchables["gather"].descriptor == DESC
        with pytest.raises(FileFormatError) as caught:
            _ = program.dispatches
        assert str(caught.value).startswith(
            "the program: $.resources must take at most"
        )

    def test_a_file_outside_is_read_if_it_is_allowed(self) -> None:
        Path("inside").mkdir()
        np.save("x.npy", DATA_4X3)
        content = json.loads(write_program(DESC, DATA_4X3, INDICES))
        for resource in content["resources"].values():
            if len(resource["initialValues"]) == DATA_4X3.size:
                resource["initialValues"] = {"sourcePath": "../x.npy"}
        Path("inside/p.json").write_text(json.dumps(content), encoding="utf-8")
        (dispatch,) = load("inside/p.json", allow_outside=True).dispatches
        assert dispatch.data is not None
        assert dispatch.data.tobytes() == DATA_4X3.tobytes()
