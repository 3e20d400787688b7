"""Large constants, cropped to what their indices read: the gather computes the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_graphs import FLOAT, INT64, constant, info, model, node
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing import cropping
from onnxgather.checking.repro.candidates import Candidate, case_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.gather import gather_of_node
from onnxgather.core.model.network import read_network
from onnxgather.extracting.extract import extract

LAYOUTS: list[tuple[str, int, tuple[int, ...], tuple[int, ...]]] = [
    ("Gather", 0, (50, 3), (4,)),
    ("Gather", -1, (4, 50), (2, 2)),
    ("Gather", 1, (2, 50, 3), ()),
    ("GatherElements", 0, (50, 3), (6, 3)),
    ("GatherElements", -1, (3, 50), (3, 6)),
    ("GatherND", 0, (50, 40, 3), (4, 1)),
    ("GatherND", 0, (50, 40, 3), (4, 2)),
    ("GatherND", 1, (2, 40, 30), (2, 5, 2)),
]


def made(operator: str, number: int, data: Array, index_type: str) -> Any:
    name = "batch_dims" if operator == "GatherND" else "axis"
    gather = node(operator, ["table", "ids"], "rows", "g", **{name: number})
    ids = info("ids", getattr(onnx.TensorProto, index_type))
    return model([gather], [ids], ["rows"], [constant("table", data)])


def outputs(operator: str, number: int, data: Array, indices: Array) -> list[bytes]:
    """The outputs under each policy that tells only by its axis where an index lies."""
    gather = gather_of_node(operator, data.shape, indices.shape, number)
    case: Any = case_of(
        Candidate(gather.operator, gather.number, data, indices), "c", "clamp"
    )
    policies: tuple[Any, ...] = ("clamp", "zero")
    every = (
        og.reference(case.descriptor, case.data, case.indices, each)
        for each in policies
    )
    return [array.tobytes() for array in every]


@pytest.mark.parametrize("is_external", [False, True])
@pytest.mark.parametrize(
    ("operator", "number", "sizes", "index_sizes"), one_quick_in(6, LAYOUTS)
)
def test_cropped_data_gives_the_same_output(
    operator: str,
    number: int,
    sizes: tuple[int, ...],
    index_sizes: tuple[int, ...],
    is_external: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For indices in range, from the end, and out of it by a little or by all that
    there is."""
    monkeypatch.setattr(cropping, "LARGEST_WHOLE", 100)
    monkeypatch.setattr(cropping, "LARGEST_READ", 64)
    library: Any = onnx
    random = np.random.default_rng(0)
    data = random.standard_normal(sizes).astype(np.float32)
    for k in range(30):
        index_type = ("INT64", "INT32")[k % 2]
        proto, path = (
            made(operator, number, data, index_type),
            str(tmp_path / f"{k}.onnx"),
        )
        if is_external:
            proto.graph.initializer.add().CopyFrom(
                constant("first", np.zeros(7, np.int8))
            )
            proto.graph.initializer.reverse()  # so that the table has an offset
            options = {
                "save_as_external_data": True,
                "size_threshold": 0,
                "location": f"{k}.bin",
            }
            library.save_model(proto, path, **options)
        else:
            library.save_model(proto, path)
        limits = np.iinfo(index_type.lower())
        indices = random.integers(-60, 60, index_sizes, limits.dtype)
        indices = np.where(random.random(index_sizes) < 0.1, limits.min, indices)
        indices = np.where(random.random(index_sizes) < 0.1, limits.max, indices)
        indices = indices.astype(limits.dtype)
        scope = read_network(path).main
        cropped, changed = cropping.constant_data(scope, scope.operations[0], indices)
        assert cropped.size < data.size
        assert (changed.dtype, changed.shape) == (indices.dtype, indices.shape)
        assert ((changed < 0) == (indices < 0)).all()
        given = (operator, scope.operations[0].number)
        assert outputs(*given, cropped, changed) == outputs(*given, data, indices)


def test_a_table_of_3_gib_is_extracted_by_the_rows_that_are_read(
    tmp_path: Path,
) -> None:
    """The file is sparse, and it would not fit a frame to the worker."""
    rows = 3 * 2**20
    table = onnx.TensorProto(name="table", data_type=FLOAT, dims=[rows, 256])
    table.data_location = onnx.TensorProto.EXTERNAL
    table.external_data.add(key="location", value="table.bin")
    gather = node("Gather", ["table", "ids"], "out", "g")
    path = tmp_path / "model.onnx"
    path.write_bytes(
        model([gather], [info("ids", INT64, [3])], ["out"], [table]).SerializeToString()
    )
    with (tmp_path / "table.bin").open("wb") as file:
        file.truncate(rows * 1024)
        file.seek(7 * 1024)
        file.write(np.full(256, 7, np.float32).tobytes())
    said = "data [3145728, 256] is cropped to [3, 256], as no more is read"
    (done,) = extract(
        str(path), {"ids": np.array([7, -1, 7 - rows])}, str(tmp_path / "out")
    )
    assert (done.cropped, done.left_out) == (said, None)
    folder = tmp_path / "out" / (done.folder or "")
    assert np.load(folder / "expected.npy")[:, 0].tolist() == [7, 0, 7]
    comment, _, program = (folder / "program.json").read_text().partition("\n")
    assert comment == f"// Gather 'g' of model.onnx: {said}"
    indices = json.loads(program)["resources"]["indices"]["initialValues"]
    assert indices == [1, -1, -2]
    repro = (folder / "repro.py").read_text()
    assert said in repro
    (left,) = extract(
        str(path), {"ids": np.array([0, 1, rows])}, str(tmp_path / "outside")
    )
    folder = tmp_path / "outside" / (left.folder or "")
    assert not (folder / "expected.npy").exists()
    assert (
        "IndicesTensor[0,2] must be in [-3, 3), got 3"
        in (folder / "repro.py").read_text()
    )
