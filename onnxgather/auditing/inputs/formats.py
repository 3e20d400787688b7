"""The formats in which tools that run a model read its inputs, a row for each tool.

A row says which files hold the inputs, and which command line reads them. Tools name
inputs in their command lines, and each has characters that it takes for something else;
so files are numbered, and a name that a tool cannot read is an error.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from msgspec import Struct
from onnx import numpy_helper

from onnxgather.auditing.proof.contract import Condition, expression_of, open_sizes
from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import Dimensions, Network
from onnxgather.core.model.protos import external_files

LONGEST_PART = 40
"""How many characters of an input's name the name of its file has."""

Arrays = Mapping[str, Array]
"""The inputs for one run, by name."""

Files = dict[str, bytes]
"""The contents of files, by their paths in a folder; "" is the only file."""


class Request(Struct, frozen=True):
    """What is written: the inputs of a model for some runs, and where."""

    network: Network
    path: str
    """The file or the folder to write."""
    sets: Sequence[Arrays]
    """The inputs for each run."""
    is_folder: bool = True
    """Whether the path is a folder, which it is for several files."""
    conditions: Sequence[Condition] = ()
    """The conditions of the contract."""

    def folder_of_set(self, number: int) -> str:
        """Return the folder of one of the sets, in the folder to write.

        A single set is in the folder itself.
        """
        return str(number) if len(self.sets) > 1 else ""

    def ends_of(self, size: int | str) -> tuple[int | None, int | None]:
        """Return the least and the greatest number of a size; None is an open end."""
        if isinstance(size, int):
            return size, size
        named = open_sizes(self.network)
        for condition in self.conditions:
            if condition.of == "size" and expression_of(condition, named) == size:
                return condition.low, condition.high
        return None, None

    def open_inputs(self) -> Iterator[tuple[str, Dimensions]]:
        """Yield the inputs of a set with open sizes, and their dimensions."""
        for name in self.sets[0]:
            dimensions = self.network.dimensions[name] or ()
            if any(isinstance(size, str) for size in dimensions):
                yield name, dimensions

    def files_of_inputs(self, suffix: str, content: Callable[[Array], bytes]) -> Files:
        """Return a file for each input of each set."""
        files: Files = {}
        for number, arrays in enumerate(self.sets):
            folder = self.folder_of_set(number)
            for position, (name, array) in enumerate(arrays.items()):
                file = os.path.join(folder, _file_name(position, name) + suffix)
                files[file] = content(array)
        return files

    def paths_of_set(self, number: int, suffix: str) -> Iterator[tuple[str, str]]:
        """Yield the name of each input of a set, and the path of its file."""
        folder = os.path.join(self.path, self.folder_of_set(number))
        for position, name in enumerate(self.sets[number]):
            yield name, os.path.join(folder, _file_name(position, name) + suffix)


class Format(Struct, frozen=True):
    """What a tool reads inputs from."""

    tool: str
    what: str
    """The files, as the documentation calls them."""
    suffix: str
    """How the name of the file ends; "" where the files are in a folder."""
    files: Callable[[Request], Files]
    commands: Callable[[Request], list[list[str]]]
    """The command lines that read the files, each the words of a shell."""
    not_in_names: str = ""
    """The characters that the tool takes for something else in names of inputs."""
    not_in_paths: str = ""
    """The same, in the path of the folder."""
    bounds: Callable[[Request], list[str]] | None = None
    """The options with the bounds of open sizes, as the words of a shell; None where
    the tool takes none."""
    bounds_are_shapes: bool = False
    """Whether the bounds are whole shapes, in which each size is a number."""
    stored_as: Mapping[str, str] | None = None
    """The data types as the tool stores them, by numpy's names; None means each as it
    is. A type that is no key has no place in the tool."""

    def check(self, request: Request) -> None:
        """Check that the tool can read the inputs.

        Raises:
            OnnxGatherError: It cannot. The message names the input or the path.
        """
        path = os.path.splitdrive(request.path)[1]
        mark = _first_mark(self.not_in_paths, path)
        if mark:
            rule = f"{request.path}: must be a path without {mark}"
            raise OnnxGatherError(f"{rule}, which {self.tool} reads otherwise")
        for name, array in request.sets[0].items():
            where = f"{request.network.path}: input {shown(name)}"
            mark = _first_mark(self.not_in_names, name)
            if mark:
                rule = f"{where} must have a name without {mark}"
                raise OnnxGatherError(f"{rule}, which {self.tool} reads otherwise")
            if self.stored_as is not None and array.dtype.name not in self.stored_as:
                rule = f"{where} must be of a type that {self.tool} has"
                raise OnnxGatherError(f"{rule}, got {array.dtype}")

    def written(self, request: Request) -> Files:
        """Return the files.

        Raises:
            OnnxGatherError: The tool cannot read such inputs.
        """
        self.check(request)
        return self.files(request)

    def command_lines(self, request: Request) -> list[str]:
        """Return the command lines that read the files, for a POSIX shell."""
        return [_joined(words) for words in self.commands(request)]

    def lines_on_bounds(self, request: Request) -> Iterator[str]:
        """Yield the options with the bounds of open sizes, and what they leave out."""
        ends_by_name = {
            name: request.ends_of(name) for name in open_sizes(request.network)
        }
        has_ends = any(ends != (None, None) for ends in ends_by_name.values())
        if self.bounds is None or not has_ends:
            return
        words = _joined(self.bounds(request))
        yield f"bounds of open sizes, for {self.tool}: {words}"
        for condition in request.conditions:
            if condition.of == "sizes":
                yield f"not in these bounds: {condition}"
        without_high = [
            name for name, (_, high) in ends_by_name.items() if high is None
        ]
        if self.bounds_are_shapes and without_high:
            names = ", ".join(without_high)
            yield f"no upper bound: {names}; the largest of the inputs stands there"


def _first_mark(marks: str, text: str) -> str:
    """Return the first of some characters that a text has, as messages show it."""
    return next((shown(mark) for mark in marks if mark in text), "")


def _joined(words: Sequence[str]) -> str:
    """Return words as a line for a shell, in which && joins two commands."""
    return " ".join(word if word == "&&" else shlex.quote(word) for word in words)


def _file_name(position: int, name: str) -> str:
    """Return the name of an input's file, without its suffix.

    The number makes it the only one: names may differ in characters that no file name
    has, or in the case of letters alone.
    """
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:LONGEST_PART]
    return f"{position}-{readable}"


# numpy's own format, which onnxgather reads.


def npz(arrays: Arrays) -> bytes:
    """Return arrays as an .npz file, whatever their names are."""
    content = BytesIO()
    # np.savez does not accept each name.
    with ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            with archive.open(ZipInfo(f"{name}.npy"), "w") as stream:
                np.lib.format.write_array(stream, array)
    return content.getvalue()


def _npz_files(request: Request) -> Files:
    if not request.is_folder:
        return {"": npz(request.sets[0])}
    return {f"{number}.npz": npz(arrays) for number, arrays in enumerate(request.sets)}


def _npz_commands(request: Request) -> list[list[str]]:
    paths = [request.path]
    if request.is_folder:
        numbers = range(len(request.sets))
        paths = [os.path.join(request.path, f"{number}.npz") for number in numbers]
    start = ["onnxgather", "audit", request.network.path, "--inputs"]
    return [[*start, path] for path in paths]


# NVIDIA's trtexec: raw files, whose types and shapes it knows from the model.

_OF_TENSORRT = {
    "bool": "bool",
    "float16": "float16",
    "float32": "float32",
    "float64": "float32",  # TensorRT has no DOUBLE: an input of it becomes FLOAT
    "int8": "int8",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
}


def _raw_of_tensorrt(array: Array) -> bytes:
    return array.astype(_OF_TENSORRT[array.dtype.name]).tobytes()


def _trtexec_commands(request: Request) -> list[list[str]]:
    commands: list[list[str]] = []
    for number, arrays in enumerate(request.sets):
        words = ["trtexec", f"--onnx={request.network.path}"]
        # trtexec refuses shapes where the model leaves none open.
        shapes = [
            _shape_of_trtexec(name, arrays[name].shape)
            for name, _ in request.open_inputs()
        ]
        if shapes:
            words.append(f"--shapes={','.join(shapes)}")
        files = list[str]()
        for name, path in request.paths_of_set(number, ".bin"):
            # Without quotes, the last colon ends a name; a drive of Windows has one.
            quoted = f"'{name}'" if ":" in path else name
            files.append(f"{quoted}:{path}")
        words.append(f"--loadInputs={','.join(files)}")
        commands.append(words)
    return commands


def _profile(
    request: Request, form: Callable[[str, Sequence[int]], str]
) -> dict[str, list[str]]:
    """Return what TensorRT optimizes for: a least, a usual and a greatest shape.

    Args:
        request: What is written.
        form: It returns an input and its shape as the tool reads it.
    """
    profile: dict[str, list[str]] = {"min": [], "opt": [], "max": []}
    for name, dimensions in request.open_inputs():
        shapes = [arrays[name].shape for arrays in request.sets]
        least: list[int] = []
        greatest: list[int] = []
        for dim, size in enumerate(dimensions):
            sizes = [shape[dim] for shape in shapes]
            low, high = request.ends_of(size)
            least.append(min(1, *sizes) if low is None else low)
            greatest.append(max(sizes) if high is None else high)
        profile["min"].append(form(name, least))
        profile["opt"].append(form(name, shapes[0]))
        profile["max"].append(form(name, greatest))
    return profile


def _shape_of_trtexec(name: str, shape: Sequence[int]) -> str:
    return f"{name}:{'x'.join(map(str, shape))}"


def _bounds_of_trtexec(request: Request) -> list[str]:
    profile = _profile(request, _shape_of_trtexec)
    return [f"--{side}Shapes={','.join(texts)}" for side, texts in profile.items()]


# ONNX Runtime's onnxruntime_perf_test and onnx_test_runner, and ONNX's own tests.


def _perf_test_files(request: Request) -> Files:
    files: Files = {}
    for number, arrays in enumerate(request.sets):
        for position, (name, array) in enumerate(arrays.items()):
            # The tool takes the input's name from the tensor, if the tensor has one.
            tensor = numpy_helper.from_array(array, name)
            file = os.path.join(f"test_data_set_{number}", f"input_{position}.pb")
            files[file] = tensor.SerializeToString(deterministic=True)
    return files


def _perf_test_commands(request: Request) -> list[list[str]]:
    network = request.network
    folder = os.path.dirname(network.path)
    copied = [network.path]
    for file in external_files(network.proto):
        # Each folder beside a model is a set of inputs for the tool.
        if os.path.basename(file) != file:
            rule = f"{network.path}: external data must be in no folder of its own"
            raise OnnxGatherError(
                f"{rule} for onnxruntime_perf_test, got {shown(file)}"
            )
        copied.append(os.path.join(folder, file))
    model = os.path.join(request.path, os.path.basename(network.path))
    run = ["onnxruntime_perf_test", "-m", "times", "-r", "10", model]
    return [["cp", *copied, os.path.join(request.path, ""), "&&", *run]]


# NVIDIA's polygraphy: its own JSON, with arrays in numpy's format.


def _polygraphy_files(request: Request) -> Files:
    runs: list[dict[str, Any]] = []
    for arrays in request.sets:
        run: dict[str, Any] = {}
        for name, array in arrays.items():
            text = base64.b64encode(_npy(array)).decode()
            run[name] = {"array": text, "polygraphy_class": "ndarray"}
        runs.append(run)
    return {"": json.dumps(runs, indent=1).encode()}


def _npy(array: Array) -> bytes:
    stream = BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def _polygraphy_commands(request: Request) -> list[list[str]]:
    start = ["polygraphy", "run", request.network.path, "--onnxrt"]
    return [[*start, "--load-inputs", request.path]]


def _bounds_of_polygraphy(request: Request) -> list[str]:
    def shape_of_polygraphy(name: str, shape: Sequence[int]) -> str:
        return f"{name}:[{','.join(map(str, shape))}]"

    words = ["--trt"]
    for side, texts in _profile(request, shape_of_polygraphy).items():
        words += [f"--trt-{side}-shapes", *texts]
    return words


# OpenVINO's benchmark_app: files of numpy.


def _benchmark_app_commands(request: Request) -> list[list[str]]:
    commands: list[list[str]] = []
    for number, arrays in enumerate(request.sets):
        paths = [*request.paths_of_set(number, ".npy")]
        # It finds names by this pattern, and gives files without names in the order of
        # the model's inputs.
        if all(re.fullmatch(r"[\w.]+", name) for name in arrays):
            inputs = [f"{name}:{path}" for name, path in paths]
        else:
            inputs = [",".join(path for _, path in paths)]
        # Without a layout, it takes an input with the sizes of an image for UINT8.
        start = ["benchmark_app", "-m", request.network.path, "-layout", "[...]"]
        commands.append([*start, "-i", *inputs])
    return commands


def _bounds_of_benchmark_app(request: Request) -> list[str]:
    texts: list[str] = []
    for name, dimensions in request.open_inputs():
        sizes: list[str] = []
        for low, high in map(request.ends_of, dimensions):
            text = f"{low or 1}..{high or ''}"
            sizes.append("?" if low is None and high is None else text)
        texts.append(f"{name}[{','.join(sizes)}]")
    return ["-shape", ",".join(texts)]


# Triton's perf_analyzer: JSON with the bytes of each input.


def _perf_analyzer_files(request: Request) -> Files:
    runs: list[dict[str, Any]] = []
    for arrays in request.sets:
        run: dict[str, Any] = {}
        for name, array in arrays.items():
            content = {"b64": base64.b64encode(array.tobytes()).decode()}
            # Triton gives an input without a dimension one of size 1.
            shape = [*array.shape] or [1]
            run[name] = {"content": content, "shape": shape}
        runs.append(run)
    return {"": json.dumps({"data": runs}, indent=1).encode()}


def _perf_analyzer_commands(request: Request) -> list[list[str]]:
    name = os.path.splitext(os.path.basename(request.network.path))[0]
    return [["perf_analyzer", "-m", name, "--input-data", request.path]]


# onnx-mlir's RunONNXModel.py: the files of ONNX's own tests.


def _onnx_mlir_commands(request: Request) -> list[list[str]]:
    start = ["RunONNXModel.py", f"--model={request.network.path}"]
    commands: list[list[str]] = []
    for number in range(len(request.sets)):
        folder = os.path.join(request.path, f"test_data_set_{number}")
        commands.append([*start, f"--load-ref={folder}"])
    return commands


def _bounds_of_onnx_mlir(request: Request) -> list[str]:
    texts: list[str] = []
    for number, name in enumerate(request.sets[0]):
        dimensions = request.network.dimensions[name] or ()
        # -1 stands for an unknown bound.
        highs = [request.ends_of(size)[1] or -1 for size in dimensions]
        if highs:
            texts.append(f"{number}:{'x'.join(map(str, highs))}")
    return [f"--shapeInformationUB={','.join(texts)}"]


NPZ = Format(
    "onnxgather",
    "an `.npz` file; several are `0.npz`, `1.npz` and so on in a folder",
    ".npz",
    _npz_files,
    _npz_commands,
)
"""The format without `--for`."""

INPUT_FORMATS = {
    row.tool: row
    for row in (
        Format(
            "trtexec",
            "the bytes of each input",
            "",
            lambda request: request.files_of_inputs(".bin", _raw_of_tensorrt),
            _trtexec_commands,
            not_in_names=",'*",
            not_in_paths=",'",
            bounds=_bounds_of_trtexec,
            bounds_are_shapes=True,
            stored_as=_OF_TENSORRT,
        ),
        Format(
            "onnxruntime_perf_test",
            "`test_data_set_0/input_0.pb` and so on",
            "",
            _perf_test_files,
            _perf_test_commands,
        ),
        Format(
            "polygraphy",
            "its own JSON",
            ".json",
            _polygraphy_files,
            _polygraphy_commands,
            bounds=_bounds_of_polygraphy,
            bounds_are_shapes=True,
        ),
        Format(
            "benchmark_app",
            "an `.npy` file for each input",
            "",
            lambda request: request.files_of_inputs(".npy", _npy),
            _benchmark_app_commands,
            not_in_paths=",:",
            bounds=_bounds_of_benchmark_app,
        ),
        Format(
            "perf_analyzer",
            "its own JSON",
            ".json",
            _perf_analyzer_files,
            _perf_analyzer_commands,
        ),
        Format(
            "onnx-mlir",
            "`test_data_set_0/input_0.pb` and so on",
            "",
            _perf_test_files,
            _onnx_mlir_commands,
            bounds=_bounds_of_onnx_mlir,
        ),
    )
}
"""The formats of `--for`, by the names of the tools."""
