"""Files of inputs in the formats of other tools, read back by a reader of each tool."""

from __future__ import annotations

import base64
import json
import math
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxgather.auditing.inputs.formats import INPUT_FORMATS, NPZ, Files, Request
from onnxgather.auditing.proof.contract import Condition
from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import write_whole
from onnxgather.core.model.network import read_network

SIZES: dict[str, list[Any]] = {
    "int64": ["n", 2],
    "float32": [],
    "float64": ["k"],
    "bool": [2, 2],
    "float16": ["b", 3, 8, 8],
}
"""The inputs of the models by their data types; the last one has an image's sizes."""

PLAIN = ("ids", "scale", "x", "flag", "img.0")
ODD = ("a/b:c", "x y", "s@t=1", "[0]", "A/B:C")
"""Names that no file, or no shell, has; two differ in the case of letters alone."""


def network_with(tmp_path: Path, names: tuple[str, ...]) -> Any:
    """Return a model whose inputs have some names, as it is read from a file."""
    inputs: list[onnx.ValueInfoProto] = []
    for name, (dtype, sizes) in zip(names, SIZES.items(), strict=True):
        data_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        inputs.append(helper.make_tensor_value_info(name, data_type, sizes))
    nodes: list[onnx.NodeProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for number, given in enumerate(inputs):
        output = f"y{number}"
        nodes.append(helper.make_node("Identity", [given.name], [output]))
        data_type = given.type.tensor_type.elem_type
        outputs.append(helper.make_tensor_value_info(output, data_type, None))
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opset = helper.make_opsetid("", 17)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    path = tmp_path / "model" / "m.onnx"
    path.parent.mkdir()
    path.write_bytes(made.SerializeToString())
    return read_network(str(path))


def arrays_of(names: tuple[str, ...], size: int) -> dict[str, Array]:
    """Return arrays for the inputs, in which each open size is a number."""
    random = np.random.default_rng(size)
    arrays: dict[str, Array] = {}
    for name, (dtype, sizes) in zip(names, SIZES.items(), strict=True):
        shape = [
            size if isinstance(open_size, str) else open_size for open_size in sizes
        ]
        arrays[name] = random.integers(0, 2, shape).astype(dtype)
        if dtype == "int64":
            arrays[name][0] = [-(2**40), 2**40]
    return arrays


@pytest.fixture(params=[PLAIN, ODD], ids=["plain", "odd"])
def request_of_two_sets(request: Any, tmp_path: Path) -> Request:
    names = request.param
    sets = [arrays_of(names, 2), arrays_of(names, 3)]
    return Request(network_with(tmp_path, names), str(tmp_path / "out"), sets)


def write(request: Request, files: Files) -> None:
    """Write files as the command `audit` does."""
    for name, content in files.items():
        path = os.path.join(request.path, name) if name else request.path
        write_whole(path, content)


def same(array: Any, expected: Array) -> bool:
    return (
        array.dtype == expected.dtype
        and array.shape == expected.shape
        and array.tobytes() == expected.tobytes()
    )


def test_numpy_reads_npz_files(request_of_two_sets: Request) -> None:
    write(request_of_two_sets, NPZ.written(request_of_two_sets))
    lines = NPZ.command_lines(request_of_two_sets)
    for arrays, line in zip(request_of_two_sets.sets, lines, strict=True):
        *start, path = shlex.split(line)
        model = request_of_two_sets.network.path
        assert start == ["onnxgather", "audit", model, "--inputs"]
        with np.load(path) as stored:
            assert stored.files == [*arrays]
            assert all(same(stored[name], array) for name, array in arrays.items())


def test_the_bounds_of_sizes_contain_each_set(tmp_path: Path) -> None:
    sets = [arrays_of(PLAIN, 2), arrays_of(PLAIN, 3)]
    condition = Condition(of="size", input="ids", dim=0, expression="n", low=2)
    network = network_with(tmp_path, PLAIN)
    request = Request(network, "out", sets, conditions=(condition,))
    bounds, no_bound = INPUT_FORMATS["trtexec"].lines_on_bounds(request)
    assert bounds == (
        "bounds of open sizes, for trtexec:"
        " --minShapes=ids:2x2,x:1,img.0:1x3x8x8"
        " --optShapes=ids:2x2,x:2,img.0:2x3x8x8"
        " --maxShapes=ids:3x2,x:3,img.0:3x3x8x8"
    )
    assert no_bound == "no upper bound: n, k, b; the largest of the inputs stands there"
    # Without a condition on a size there is no bound.
    plain = Request(network, "out", sets)
    assert [*INPUT_FORMATS["trtexec"].lines_on_bounds(plain)] == []


def option(line: str, name: str) -> str:
    """Return the value of an option of trtexec; it ends its name at the first "="."""
    (value,) = [
        word.partition("=")[2] for word in shlex.split(line) if word.startswith(name)
    ]
    return value


def test_trtexec_finds_the_bytes_of_each_input(request_of_two_sets: Request) -> None:
    row = INPUT_FORMATS["trtexec"]
    write(request_of_two_sets, row.written(request_of_two_sets))
    lines = row.command_lines(request_of_two_sets)
    for arrays, line in zip(request_of_two_sets.sets, lines, strict=True):
        # It splits at commas, and each part at the last colon.
        shapes = [text.rpartition(":") for text in option(line, "--shapes=").split(",")]
        given = {name: [*map(int, text.split("x"))] for name, _, text in shapes}
        files = [
            text.rpartition(":") for text in option(line, "--loadInputs=").split(",")
        ]
        assert [name for name, _, _ in files] == [*arrays]
        for (name, _, path), (dtype, sizes) in zip(files, SIZES.items(), strict=True):
            array = arrays[name]
            is_open = any(isinstance(size, str) for size in sizes)
            assert (name in given) == is_open
            assert not is_open or given[name] == [*array.shape]
            stored_as = "float32" if dtype == "float64" else dtype
            stored = np.fromfile(path, stored_as).reshape(array.shape)
            assert same(stored, array.astype(stored_as))


def test_a_colon_in_the_path_quotes_the_names_for_trtexec(tmp_path: Path) -> None:
    network = network_with(tmp_path, PLAIN)
    request = Request(network, "a:b", [arrays_of(PLAIN, 2)])
    (line,) = INPUT_FORMATS["trtexec"].command_lines(request)
    first = option(line, "--loadInputs=").split(",")[0]
    assert first == f"'ids':{Path('a:b', '0-ids.bin')}"


def test_onnx_reads_the_files_of_onnxruntime_perf_test(
    request_of_two_sets: Request,
) -> None:
    row = INPUT_FORMATS["onnxruntime_perf_test"]
    write(request_of_two_sets, row.written(request_of_two_sets))
    for number, arrays in enumerate(request_of_two_sets.sets):
        folder = Path(request_of_two_sets.path, f"test_data_set_{number}")
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == [f"input_{k}.pb" for k in range(5)]
        for file, (name, array) in zip(files, arrays.items(), strict=True):
            tensor = TensorProto.FromString(file.read_bytes())
            assert tensor.name == name
            assert same(numpy_helper.to_array(tensor), array)
    (line,) = row.command_lines(request_of_two_sets)
    model = request_of_two_sets.network.path
    folder = request_of_two_sets.path
    run = f"onnxruntime_perf_test -m times -r 10 {Path(folder, 'm.onnx')}"
    assert line == f"cp {model} {Path(folder)}/ && {run}"


def test_external_data_is_copied_beside_the_model(tmp_path: Path) -> None:
    row = INPUT_FORMATS["onnxruntime_perf_test"]
    for file in ("w.bin", "weights/w.bin"):
        table = onnx.TensorProto(name="t", data_type=onnx.TensorProto.FLOAT, dims=[1])
        table.data_location = onnx.TensorProto.EXTERNAL
        table.external_data.add(key="location", value=file)
        node = helper.make_node("Identity", ["t"], ["y"])
        graph = helper.make_graph([node], "g", [], [], [table])
        path = tmp_path / "m.onnx"
        path.write_bytes(helper.make_model(graph).SerializeToString())
        request = Request(read_network(str(path)), "out", [{}])
        if file == "w.bin":
            (line,) = row.command_lines(request)
            assert line.startswith(f"cp {path} {tmp_path / 'w.bin'} out/ && ")
            continue
        with pytest.raises(OnnxGatherError) as raised:
            row.command_lines(request)
        assert str(raised.value) == (
            f"{path}: external data must be in no folder of its own for"
            " onnxruntime_perf_test, got 'weights/w.bin'"
        )


def test_the_json_of_polygraphy_has_arrays_in_numpys_format(
    request_of_two_sets: Request,
) -> None:
    files = INPUT_FORMATS["polygraphy"].written(request_of_two_sets)
    for run, arrays in zip(
        json.loads(files[""]), request_of_two_sets.sets, strict=True
    ):
        assert [*run] == [*arrays]
        for stored in run.values():
            assert stored["polygraphy_class"] == "ndarray"
            assert base64.b64decode(stored["array"]).startswith(b"\x93NUMPY")
    (line,) = INPUT_FORMATS["polygraphy"].command_lines(request_of_two_sets)
    model = request_of_two_sets.network.path
    start = f"polygraphy run {model} --onnxrt --load-inputs "
    assert line == start + request_of_two_sets.path


def test_polygraphy_reads_its_json(request_of_two_sets: Request) -> None:
    polygraphy: Any = pytest.importorskip("polygraphy.json")
    write(request_of_two_sets, INPUT_FORMATS["polygraphy"].written(request_of_two_sets))
    runs = polygraphy.load_json(request_of_two_sets.path)
    for run, arrays in zip(runs, request_of_two_sets.sets, strict=True):
        assert [*run] == [*arrays]
        assert all(same(run[name], array) for name, array in arrays.items())


def test_numpy_reads_the_files_of_benchmark_app(request_of_two_sets: Request) -> None:
    row = INPUT_FORMATS["benchmark_app"]
    write(request_of_two_sets, row.written(request_of_two_sets))
    lines = row.command_lines(request_of_two_sets)
    for arrays, line in zip(request_of_two_sets.sets, lines, strict=True):
        words = shlex.split(line)
        files = words[words.index("-i") + 1 :]
        assert words[3:5] == ["-layout", "[...]"]
        if "ids" in arrays:
            assert [file.partition(":")[0] for file in files] == [*arrays]
            paths = [file.partition(":")[2] for file in files]
        else:
            # Files without names are those of the inputs in their order.
            paths = files[0].split(",")
        for path, array in zip(paths, arrays.values(), strict=True):
            assert same(np.load(path), array)


def test_benchmark_app_reads_its_files(request_of_two_sets: Request) -> None:
    openvino: Any = pytest.importorskip("openvino")
    names = "openvino.tools.benchmark.utils"
    utils: Any = pytest.importorskip(f"{names}.utils")
    filling: Any = pytest.importorskip(f"{names}.inputs_filling")
    row = INPUT_FORMATS["benchmark_app"]
    write(request_of_two_sets, row.written(request_of_two_sets))
    read = openvino.Core().read_model(request_of_two_sets.network.path)
    lines = row.command_lines(request_of_two_sets)
    for arrays, line in zip(request_of_two_sets.sets, lines, strict=True):
        words = shlex.split(line)
        files = words[words.index("-i") + 1 :]
        infos, _ = utils.get_inputs_info("", "", words[4], 0, "", "", read.inputs)
        data = filling.get_input_data(files, infos).input_data
        for port, array in enumerate(arrays.values()):
            (tensor,) = data[port]
            assert same(tensor.data, array)


def test_perf_analyzer_finds_bytes_and_shapes(request_of_two_sets: Request) -> None:
    files = INPUT_FORMATS["perf_analyzer"].written(request_of_two_sets)
    content = json.loads(files[""])
    assert [*content] == ["data"]
    for run, arrays in zip(content["data"], request_of_two_sets.sets, strict=True):
        assert [*run] == [*arrays]
        for name, array in arrays.items():
            stored = run[name]
            assert [*stored] == ["content", "shape"]
            # A scalar is one element of one dimension for Triton.
            assert stored["shape"] == ([*array.shape] or [1])
            assert base64.b64decode(stored["content"]["b64"]) == array.tobytes()
            assert math.prod(stored["shape"]) == array.size
    (line,) = INPUT_FORMATS["perf_analyzer"].command_lines(request_of_two_sets)
    assert line == f"perf_analyzer -m m --input-data {request_of_two_sets.path}"


@pytest.mark.parametrize("mark", [",", "'", "*"])
def test_trtexec_cannot_read_some_names(tmp_path: Path, mark: str) -> None:
    names = (f"a{mark}b", *PLAIN[1:])
    request = Request(network_with(tmp_path, names), "out", [arrays_of(names, 2)])
    with pytest.raises(OnnxGatherError) as raised:
        INPUT_FORMATS["trtexec"].written(request)
    assert str(raised.value) == (
        f"{request.network.path}: input {names[0]!r} must have a name without"
        f" {shown(mark)},"
        " which trtexec reads otherwise"
    )


@pytest.mark.parametrize(
    ("tool", "path", "mark"),
    [
        ("trtexec", "a,b", ","),
        ("benchmark_app", "a:b", ":"),
        ("benchmark_app", "a,b", ","),
    ],
)
def test_some_paths_cannot_be_read(
    tmp_path: Path, tool: str, path: str, mark: str
) -> None:
    request = Request(network_with(tmp_path, PLAIN), path, [arrays_of(PLAIN, 2)])
    with pytest.raises(OnnxGatherError) as raised:
        INPUT_FORMATS[tool].written(request)
    assert str(raised.value) == (
        f"{path}: must be a path without {mark!r}, which {tool} reads otherwise"
    )


def test_trtexec_has_no_int16(tmp_path: Path) -> None:
    arrays = arrays_of(PLAIN, 2)
    arrays["ids"] = arrays["ids"].astype(np.int16)
    request = Request(network_with(tmp_path, PLAIN), "out", [arrays])
    with pytest.raises(OnnxGatherError) as raised:
        INPUT_FORMATS["trtexec"].written(request)
    assert str(raised.value) == (
        f"{request.network.path}: input 'ids' must be of a type that trtexec has,"
        " got int16"
    )
