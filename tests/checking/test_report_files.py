"""Reports and known differences that are read from files, hostile ones too."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from messages import message_of, rows_of
from report_samples import (
    CPU,
    DIFF,
    OPENVINO,
    entry,
    gather_case,
    passed,
    report_of,
    spoiled,
)

from onnxgather.checking.known_differences import known_differences
from onnxgather.checking.report_files import (
    LARGEST_FILE,
    find_report,
    open_known,
    open_report,
)
from onnxgather.cli.terminal import json_bytes
from onnxgather.core.errors import FileFormatError

REPORT = report_of(
    [CPU, OPENVINO],
    entry(
        gather_case(),
        passed("cpu"),
        DIFF,
        got={"openvino": spoiled(gather_case(), 2)},
    ),
)
ONE = msgspec.structs.replace(
    report_of([CPU], entry(gather_case(), passed("cpu"))), made="now", machine="here"
)
KNOWN = {
    "provider": "CPUExecutionProvider",
    "versions": ">=1.24",
    "cases": [{"operator": ["GATHER"]}],
    "found": [{"kind": "elements"}],
    "reason": "It is so.",
    "link": "measured",
}


def refused(read: Any, path: Path, content: bytes) -> str:
    """The sentence with which a file is refused, without its path."""
    path.write_bytes(content)
    text = message_of(FileFormatError, read, str(path))
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(msgspec.json.encode(REPORT))
    assert open_report(str(path)) == REPORT


BROKEN = """
schema 1
$.schema must be 2, got 1

schema
$.schema must be 2, got none, as in earlier reports and other files

made
$ must have made

cases.0.results.0.state "NO"
$.cases[0].results[0].state must be a value that docs/report.md lists, got 'NO'

lanes.0.name "cpu@x=./evil"
the name of a lane must have no '=', got 'cpu@x=./evil'

planned 2
$.cases must have the 2 cases that were planned, got 1; run the check again

cases.0.results []
$.cases[0].results must be of lanes of the report, ['cpu', 'openvino'], in their order,
got []

lanes.0.name 3
$.lanes[0].name must be `str`, got `int`

lanes.1.name "cpu"
$.lanes must differ by name, got ['cpu', 'cpu']

cases.0.results.0.lane "webgpu"
$.cases[0].results must be of lanes of the report, ['cpu', 'openvino'], in their order,
got ['webgpu', 'openvino']

lanes.0.provider "x' + evil"
$.lanes[0].provider must be a full name such as CPUExecutionProvider, DirectML.dll or
opencv

cases.0.results.0.kind "x"
$.cases[0].results[0].kind must be a value that docs/report.md lists, got 'x'

cases.0.evidence.data.data_type "O"
$.cases[0].evidence: data_type must be that of numbers or texts, got O

cases.0.evidence.data.data_type "4i8 ("
$.cases[0].evidence: data_type must be that of numbers or texts, got 4i8 (

cases.0.evidence.got.openvino.shape [1099511627776, 1099511627776]
$.cases[0].evidence: cannot reshape array of size 4 into shape
(1099511627776,1099511627776)

cases.0.evidence.data.data "*"
$.cases[0].evidence.data.data: Invalid base64 encoded string
"""
"""A field, and its value; without one it is left out."""


@pytest.mark.parametrize(("change", "sentence"), rows_of(BROKEN))
def test_a_broken_report_is_one_sentence(
    tmp_path: Path, change: str, sentence: str
) -> None:
    where, _, value = change.partition(" ")
    content = json.loads(msgspec.json.encode(REPORT))
    *path, last = where.split(".")
    field = content
    for step in path:
        field = field[int(step)] if step.isdecimal() else field[step]
    if value:
        field[last] = json.loads(value)
    else:
        del field[last]
    for read in (open_report, find_report):
        text = json.dumps(content).encode()
        assert refused(read, tmp_path / "r.json", text) == sentence


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "must be a report of onnxgather check, got an empty file"),
        (b"[1]", "$ must be `object`, got `array`"),
        (b'{"schema": 2}', "$ must have onnxgather"),
        (
            b'{"schema": 2, "onnxgather": ',
            "$ must be whole JSON, got an empty or cut file",
        ),
        (b"[" * 100_000, "$ must be `object`, got `array`"),
        (b'{"x":' * 100_000, "$ must not be nested so deeply"),
        (b'{"schema": 2, "onnxgather": "\xff"}', "$ must be UTF-8, got other bytes"),
    ],
)
def test_text_that_is_no_report_is_one_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    assert refused(open_report, tmp_path / "r.json", content) == sentence


@pytest.mark.parametrize("read", [open_report, open_known])
def test_a_file_above_1_gib_is_refused_unread(tmp_path: Path, read: Any) -> None:
    path = tmp_path / "r.json"
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    assert (
        message_of(FileFormatError, read, str(path))
        == f"{path}: must have at most 1,073,741,824 bytes, got more"
    )


@pytest.mark.parametrize("read", [open_report, open_known])
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, read: Any) -> None:
    for path, why in (
        (tmp_path / "no", "no such file or directory"),
        (tmp_path, "is a directory"),
    ):
        assert message_of(FileFormatError, read, str(path)) == f"{path}: {why}"


def test_our_own_known_differences_have_the_format_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_bytes(msgspec.json.encode(known_differences()))
    assert open_known(str(path)) == known_differences()


BROKEN_KNOWN = """
{"provider": "cpu"}
$[0].provider must be a full name such as CPUExecutionProvider, DirectML.dll or opencv,
got 'cpu'

{"provider": "my runtime"}
$[0].provider must be a full name such as CPUExecutionProvider, DirectML.dll or opencv,
got 'my runtime'

{"versions": "1.24"}
$[0].versions must be such as >=1.24,<1.25, got '1.24'

{"versions": 1}
$[0].versions must be `str`, got `int`

{"reasons": ""}
$[0] must not have reasons

{"cases": [{"operators": []}]}
$[0].cases[0] must not have operators

{"cases": [{"operator": "GATHER"}]}
$[0].cases[0].operator must be `array | null`, got `str`

{"cases": [{"indices": ["large"]}]}
$[0].cases[0].indices[0] must be a value that docs/report.md lists, got 'large'

{"found": [{}]}
$[0].found[0] must have kind

{"found": [{"kind": "elements", "got": "mine"}]}
$[0].found[0].got must be one of clamp, error, zero, directml, cpu, directml-provider,
iree, mnn, onnx, onnx-reference, opencv, openvino, openvino-provider,
openvino-provider-nearest, openvino-provider-short, tract, tract-uint32, tvm, webgpu,
webnn, got 'mine'
"""


@pytest.mark.parametrize(("changes", "sentence"), rows_of(BROKEN_KNOWN))
def test_a_broken_known_difference_is_one_sentence(
    tmp_path: Path, changes: str, sentence: str
) -> None:
    content = json.dumps([KNOWN | json.loads(changes)]).encode()
    assert refused(open_known, tmp_path / "known.json", content) == sentence


def test_a_sentence_has_the_start_of_a_long_name(tmp_path: Path) -> None:
    content = json.dumps([KNOWN | {"k" * 10**6: 0}]).encode()
    said = refused(open_known, tmp_path / "known.json", content)
    assert said == f"$[0] must not have {'k' * 100}…{'k' * 100}"


@pytest.mark.parametrize("form", [msgspec.json.encode, json_bytes])
def test_a_report_is_found_in_its_file(tmp_path: Path, form: Any) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(form(REPORT))
    assert find_report(str(path)) == REPORT


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"dispatchables": {}}', b"\x08\x08", b"[]"]
)
def test_a_file_that_is_no_report_is_told_apart(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert find_report(str(tmp_path / "x")) is None


@pytest.mark.slow
def test_a_report_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    content = msgspec.json.encode(ONE)
    for size in range(content.index(b'"onnxgather":') + 13, len(content)):
        said = refused(find_report, tmp_path / "r.json", content[:size])
        assert said == "$ must be whole JSON, got an empty or cut file"


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither /dev/zero nor /dev/fd")
def test_a_report_may_be_a_pipe_and_of_a_device_only_the_start_is_read() -> None:
    assert find_report("/dev/zero") is None
    reader, writer = os.pipe()
    try:
        os.write(writer, msgspec.json.encode(ONE))
        os.close(writer)
        assert find_report(f"/dev/fd/{reader}") == ONE
    finally:
        os.close(reader)
