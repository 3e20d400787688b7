"""The programs and models in models/, and Microsoft's documented examples with their
errata."""

from __future__ import annotations

import importlib.util
import json
import shutil
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnxruntime
import pytest
from folders import DATA, MODELS, ROOT
from messages import message_of

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.memory import DispatchRun
from onnxgather.core.programs.program import Program, read_program
from onnxgather.core.programs.running import execute

EXAMPLES: dict[str, dict[str, Any]] = {
    example["id"]: example
    for example in json.loads((DATA / "documented_examples.json").read_text())[
        "examples"
    ]
}
DOCUMENTED = {e["program"]: e for e in EXAMPLES.values() if e["kind"] == "numeric"}
RECOGNISABLE = {
    "bilinear_corners": "GATHER_ND",
    "detector_topk_boxes": "GATHER_ELEMENTS",
    "image_remap": "GATHER_ND",
    "keypoint_lookup": "GATHER_ND1",
    "kv_cache_beam_reorder": "GATHER",
    "token_embedding": "GATHER",
}
NAMES = sorted([*DOCUMENTED, *RECOGNISABLE])
POLICIES: tuple[OutOfRange, ...] = get_args(OutOfRange)
EVALUATE = {"reference": og.reference, "cpu": partial(og.run, provider="cpu")}

documented = pytest.mark.parametrize("name", sorted(DOCUMENTED))
every_program = pytest.mark.parametrize("name", NAMES)


def script(name: str) -> Any:
    """Return a script as a module."""
    path = ROOT / "scripts" / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = script("build_models.py")


def tensor(described: dict[str, Any], data_type: str = "FLOAT32") -> dict[str, Any]:
    """Return a documented tensor in DxDispatch's spelling."""
    return {
        "DataType": described.get("data_type", data_type),
        "Sizes": described["sizes"],
    }


def as_printed(example: dict[str, Any]) -> dict[str, Any]:
    """Return a documented descriptor in DxDispatch's spelling, errata and all."""
    tensors = {
        "InputTensor": tensor(example["input"]),
        "IndicesTensor": tensor(example["indices"], "UINT32"),
        "OutputTensor": tensor(example["output"]),
    }
    return {"type": example["operator"], "desc": {**tensors, **example["fields"]}}


def corrected(example: dict[str, Any]) -> og.Descriptor:
    """Return the descriptor that a documented example means."""
    printed = as_printed(example)
    desc = printed["desc"]
    desc.update(example.get("corrected_fields", {}))
    output_type = example.get(
        "corrected_output_data_type", desc["OutputTensor"]["DataType"]
    )
    desc["OutputTensor"]["DataType"] = output_type
    return og.from_dict(printed)


def check_same(found: Array, expected: Array) -> None:
    """Check that two arrays agree in data type, shape and every bit."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


def program(name: str) -> Program:
    """Return a program of models/."""
    return read_program(MODELS / f"{name}.json")


def only_dispatch(name: str) -> DispatchRun:
    """Return the one dispatch of a program, computed by the reference."""
    (dispatch,) = program(name).dispatched(og.reference)
    return dispatch


# The folder.


def test_models_holds_ten_documented_and_six_recognisable_programs() -> None:
    assert len(DOCUMENTED) == 10
    operators = {name: only_dispatch(name).descriptor.operator for name in RECOGNISABLE}
    assert operators == RECOGNISABLE
    assert len(RECOGNISABLE) == 6
    files = contents(MODELS).keys()
    assert files == {
        f"{name}.{kind}" for name in NAMES for kind in ("json", "txt", "onnx")
    }


def copied_programs(folder: Path) -> Path:
    """Return a folder with the programs of models/ and nothing made from them."""
    copy = folder / "models"
    copy.mkdir()
    for path in MODELS.glob("*.json"):
        shutil.copy(path, copy)
    return copy


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every file of a folder, by its name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_build_models_makes_models_and_reports_and_repairs_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied_programs(tmp_path)
    arguments = ["--folder", str(folder)]
    assert BUILD.main(arguments) == 0
    added = sorted(f"added {name}.{kind}" for name in NAMES for kind in ("txt", "onnx"))
    assert capsys.readouterr().out.splitlines() == added
    assert contents(folder) == contents(MODELS)
    folder.joinpath("image_remap.txt").write_text("Resource 'turned':\n")
    folder.joinpath("token_embedding.onnx").unlink()
    folder.joinpath("stray.txt").write_text("Resource 'stray':\n")
    damaged = contents(folder)
    assert BUILD.main([*arguments, "--check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "image_remap.txt differs",
        "stray.txt belongs to no program",
        "token_embedding.onnx is missing",
    ]
    assert contents(folder) == damaged
    assert BUILD.main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "changed image_remap.txt",
        "removed stray.txt",
        "added token_embedding.onnx",
    ]
    assert contents(folder) == contents(MODELS)
    assert BUILD.main([*arguments, "--check"]) == 0
    assert capsys.readouterr().out == "48 files, none differs\n"


def test_build_models_makes_the_files_of_a_changed_program_again(
    tmp_path: Path,
) -> None:
    folder = copied_programs(tmp_path)
    BUILD.main(["--folder", str(folder)])
    path = folder / "gather_1_remap_1d.json"
    text = path.read_text(encoding="utf-8")
    changed = text.replace('"UINT32"', '"INT64"').replace(
        "[3, 1, 3, 0, 2]", "[0, 0, 0, 0, 0]"
    )
    path.write_text(changed, encoding="utf-8")
    assert BUILD.main(["--folder", str(folder)]) == 0
    found = contents(folder)
    assert found["gather_1_remap_1d.json"] == changed.encode()
    assert found["gather_1_remap_1d.txt"] == b"Resource 'output': 11, 11, 11, 11, 11\n"
    assert (
        found["gather_1_remap_1d.onnx"]
        != MODELS.joinpath("gather_1_remap_1d.onnx").read_bytes()
    )


# Every program.


@every_program
@pytest.mark.parametrize("evaluate", EVALUATE)
def test_a_program_prints_its_txt(name: str, evaluate: str, tmp_path: Path) -> None:
    printed = execute(program(name), EVALUATE[evaluate], output_folder=str(tmp_path))
    assert b"".join(printed) == (MODELS / f"{name}.txt").read_bytes()


@every_program
def test_onnx_file_computes_what_the_program_computes(name: str) -> None:
    dispatch = only_dispatch(name)
    session: Any = onnxruntime.InferenceSession(
        MODELS / f"{name}.onnx", providers=["CPUExecutionProvider"]
    )
    inputs = {"InputTensor": dispatch.data, "IndicesTensor": dispatch.indices}
    (output,) = session.run(["OutputTensor"], inputs)
    check_same(output, dispatch.output)


@every_program
def test_program_gives_the_same_under_every_policy_as_its_indices_are_in_range(
    name: str,
) -> None:
    dispatch = only_dispatch(name)
    for policy in POLICIES:
        for compute in (og.reference, og.run):
            output = compute(
                dispatch.descriptor, dispatch.data, dispatch.indices, policy
            )
            check_same(output, dispatch.output)


@every_program
def test_comment_of_a_program_gives_the_sizes_and_the_values_of_its_result(
    name: str,
) -> None:
    text = (MODELS / f"{name}.json").read_text(encoding="utf-8")
    comment = " ".join(line[2:] for line in text.splitlines() if line.startswith("//"))
    sizes, _, numbers = comment.partition("Result {")[2].partition("}:")
    line = (MODELS / f"{name}.txt").read_text(encoding="latin-1").removesuffix("\n")
    assert numbers.split() == line.partition(": ")[2].split(", ")
    output = only_dispatch(name).descriptor.output_tensor
    assert tuple(map(int, sizes.split(","))) == output.sizes


# The documented examples.


@documented
def test_program_is_the_documented_example(name: str) -> None:
    example, dispatch = DOCUMENTED[name], only_dispatch(name)
    assert dispatch.descriptor == corrected(example)
    for given, found in (
        ("input", dispatch.data),
        ("indices", dispatch.indices),
        ("output", dispatch.output),
    ):
        described = example[given]
        check_same(found, np.array(described["values"], found.dtype))
        assert list(found.shape) == described["sizes"]
    output = dispatch.output
    numbers = ", ".join(f"{number:g}" for number in output.reshape(-1).tolist())
    assert (MODELS / f"{name}.txt").read_text() == f"Resource 'output': {numbers}\n"


@documented
def test_program_names_the_page_and_the_example(name: str) -> None:
    example = DOCUMENTED[name]
    first = (
        (MODELS / f"{name}.json").read_text(encoding="utf-8").splitlines()[0].lower()
    )
    assert first.startswith(f"// {example['page'].lower()}, ")
    number, _, title = example["section"].lower().partition(", ")
    assert title in first
    assert (number if title else "the example") in first


# Errata of the pages: what they print and DirectML does not take.


def refusal(value: dict[str, Any]) -> str:
    """Return the message with which a descriptor is refused."""
    return message_of(og.DescriptorError, og.from_dict, value)


def test_only_two_documented_descriptors_are_wrong_as_printed() -> None:
    wrong: dict[str, str] = {}
    for example in EXAMPLES.values():
        if example["kind"] != "prose":
            try:
                og.from_dict(as_printed(example))
            except og.DescriptorError as error:
                wrong[example["id"]] = str(error)
    assert wrong == {
        "gather-ex3": (
            "OutputTensor.Sizes must be [3, 1, 2], which Axis 1 and IndexDimensions 2"
            " give, as only leading ones are cropped to DimensionCount (2), got [3, 2]"
            " (Microsoft's example 3 prints IndexDimensions 2, which DirectML refuses);"
            " did you mean IndexDimensions 1?"
        ),
        "gather-elements-ex1": (
            "OutputTensor.DataType must be that of InputTensor (FLOAT32), got UINT32"
            " (Microsoft's example prints UINT32, which DirectML refuses)"
        ),
    }


def printed_formula(example: dict[str, Any]) -> list[int]:
    """Return OutputTensor.Sizes by the formula that the ND pages print."""
    data, indices = example["input"]["sizes"], example["indices"]["sizes"]
    count, tuple_size = len(data), indices[-1]
    indices_count = example["fields"]["IndicesDimensionCount"]
    sizes = indices[count - indices_count : count - 1] + data[count - tuple_size :]
    return [1] * (count - len(sizes)) + sizes


TUPLES = [
    example
    for example in EXAMPLES.values()
    if "_ND" in example["operator"] and example["kind"] != "prose"
]
WRONG_FORMULA = {
    example["id"]: printed_formula(example)
    for example in TUPLES
    if printed_formula(example) != example["output"]["sizes"]
}


def test_nd_formula_fails_four_of_the_six_printed_sizes() -> None:
    assert (len(TUPLES), len(WRONG_FORMULA)) == (6, 4)


@pytest.mark.parametrize(("example", "sizes"), WRONG_FORMULA.items())
def test_sizes_of_the_printed_nd_formula_are_refused(
    example: str, sizes: list[int]
) -> None:
    printed = as_printed(EXAMPLES[example])
    right = EXAMPLES[example]["output"]["sizes"]
    assert list(og.from_dict(printed).output_tensor.sizes) == right
    printed["desc"]["OutputTensor"]["Sizes"] = sizes
    counts = [f"{name} {value}" for name, value in EXAMPLES[example]["fields"].items()]
    length = EXAMPLES[example]["indices"]["sizes"][-1]
    assert refusal(printed).partition("; did you mean")[0] == (
        f"OutputTensor.Sizes must be {right}, which {', '.join(counts)} and index"
        f" tuples of {length} give, got {sizes} (the formula on Microsoft's page"
        " gives these sizes; its examples and DirectML do not follow it)"
    )


# Sizes that the pages' prose explains; what they leave out is filled in.


READINGS = """
gather-prose-1: 1x1x5x7, printed, 5x1x4x6, Axis=3
gather-nd-prose-1: 1x1x6x7, printed, 1x1x4x5, InputDimensionCount=2
gather-nd1-prose-1: 1x1x6x7, printed, 1x1x4x5, InputDimensionCount=2
gather-nd-prose-2: printed, 1x1x9x1, 1x9x4x6, IndicesDimensionCount=2
gather-nd-prose-2: printed, 1x1x9x3, 1x1x1x9, IndicesDimensionCount=2
gather-nd1-prose-2: printed, 1x1x9x1, 1x9x4x6, IndicesDimensionCount=2
gather-nd1-prose-2: printed, 1x1x9x3, 1x1x1x9, IndicesDimensionCount=2
"""
"""A fragment, the sizes of the three tensors, one of which are printed, and a field.

The limits that other fragments break are in test_errata.py.
"""


def reading(sizes: list[list[int]], example: str, **fields: int) -> dict[str, Any]:
    """Return a descriptor with the fields of a fragment and some more."""
    operator = EXAMPLES[example]["operator"]
    types = ("FLOAT32", "UINT32", "FLOAT32")
    rows = zip(types, sizes, strict=True)
    three = [{"DataType": kind, "Sizes": each} for kind, each in rows]
    batches = {"BatchDimensionCount": 0} if operator.endswith("1") else {}
    rest = batches | EXAMPLES[example]["fields"] | fields
    names = ("InputTensor", "IndicesTensor", "OutputTensor")
    return {"type": operator, "desc": dict(zip(names, three, strict=True)) | rest}


def printed_sizes(example: str) -> list[int]:
    fragment = EXAMPLES[example]
    return (fragment.get("indices") or fragment["input"])["sizes"]


@pytest.mark.parametrize("row", READINGS.strip().splitlines())
def test_a_fragment_of_the_prose_reads_as_a_descriptor(row: str) -> None:
    example, _, rest = row.partition(": ")
    *texts, field = rest.split(", ")
    name, _, value = field.partition("=")
    sizes = [
        printed_sizes(example) if text == "printed" else [*map(int, text.split("x"))]
        for text in texts
    ]
    og.from_dict(reading(sizes, example, **{name: int(value)}))


def test_batches_of_the_last_fragment_come_first_after_the_leading_ones() -> None:
    example = "gather-nd1-prose-4"
    indices = [*printed_sizes(example)[:-1], 3]  # tuples that are not too long
    output = [1, 1, 3, 4, 5, 6]
    right, wrong = (
        reading([data, indices, output], example, InputDimensionCount=5)
        for data in ([1, 3, 4, 2, 2, 2], [1, 3, 5, 2, 2, 2])
    )
    og.from_dict(right)
    assert (
        refusal(wrong)
        == "The BatchDimensionCount (2) batch sizes of IndicesTensor must be those of"
        " InputTensor, [3, 5], as what others mean is undefined, got [3, 4]"
    )


def test_the_networks_are_those_that_their_script_makes() -> None:
    there, made = contents(MODELS / "networks"), script("build_networks.py").build()
    arrays = [np.load(BytesIO(files.pop("keywords.npz"))) for files in (there, made)]
    assert there == made
    stored, built = (
        {name: (a.dtype, a.tobytes()) for name, a in each.items()} for each in arrays
    )
    # not the archive: versions of numpy write it with other bytes
    assert stored == built
