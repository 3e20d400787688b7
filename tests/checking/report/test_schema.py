"""The JSON Schema of a report, which the package ships."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import report_schema
from command_line import call
from folders import MODELS, ROOT
from jsonschema import Draft202012Validator, ValidationError
from report_samples import small
from rings import but_slow

from onnxgather.checking.known_differences import known_differences

FILE = resources.files("onnxgather.checking") / "report.schema.json"
SCHEMA = json.loads(FILE.read_text("utf-8"))
# The library does not say the types of what it validates.
VALIDATOR: Any = Draft202012Validator(SCHEMA)

CHECKS = {
    "known": ["--corpus", "-k", "gather-nd/batch", "--lanes", "cpu,onnx-reference"],
    "findings": ["--corpus", "-k", "gather-nd/batch", "--no-known", "--lanes", "cpu"],
    "not run": ["--random", "5", "--lanes", "cpu,directml,webnn", "--shard", "1/2"],
    "programs": ["PROGRAMS", "--out-of-range", "directml", "--lanes", "cpu@native"],
}


@pytest.mark.parametrize("name", but_slow(["known", "not run", "programs"], CHECKS))
def test_a_report_of_check_is_valid(name: str, tmp_path: Path) -> None:
    words = CHECKS[name]
    invalid = tmp_path / "invalid.json"
    invalid.write_text('{"type": "DML_OPERATOR_GATHER", "desc": {}}', "utf-8")
    programs = [str(MODELS), str(invalid)]
    given = programs if words[0] == "PROGRAMS" else [words[0]]
    path = tmp_path / "report.json"
    done = call("check", *given, *words[1:], f"--json={path}")
    assert path.exists(), done.output
    report = json.loads(path.read_text("utf-8"))
    assert report["cases"]
    VALIDATOR.validate(report)


def sample() -> dict[str, Any]:
    """A report with each state."""
    return json.loads(msgspec.json.encode(small()))


def test_a_report_with_each_state_is_valid() -> None:
    VALIDATOR.validate(sample())
    states = {one["state"] for case in sample()["cases"] for one in case["results"]}
    assert states == {one["const"] for one in SCHEMA["$defs"]["State"]["oneOf"]}


OPEN = {"versions", "descriptor", "attributes", "got"}
"""The keys of objects with any keys."""


def objects(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each object of a report whose keys are a closed set."""
    yield part
    for key in {*part} - OPEN:
        inner: list[Any] = part[key] if isinstance(part[key], list) else [part[key]]
        for one in inner:
            if isinstance(one, dict):
                yield from objects(cast("dict[str, Any]", one))


def test_an_unknown_key_is_invalid_in_each_object() -> None:
    count = len([*objects(sample())])
    assert count > 50
    for number in range(count):
        report = sample()
        [*objects(report)][number]["other"] = 1
        with pytest.raises(ValidationError, match="'other' was unexpected"):
            VALIDATOR.validate(report)


@pytest.mark.parametrize(
    ("key", "value"), [("state", "PASSED"), ("kind", "equal"), ("nodes", "Gather")]
)
def test_a_wrong_value_is_invalid(key: str, value: str) -> None:
    report = sample()
    report["cases"][0]["results"][0][key] = value
    assert not VALIDATOR.is_valid(report)


def test_a_required_key_that_is_absent_is_invalid() -> None:
    for key in SCHEMA["required"]:
        report = sample()
        del report[key]
        assert not VALIDATOR.is_valid(report), key


def test_our_known_differences_are_valid() -> None:
    entries = json.loads(msgspec.json.encode(known_differences()))
    assert entries
    schema = {"$ref": "#/$defs/Known", "$defs": SCHEMA["$defs"]}
    known: Any = Draft202012Validator(schema)
    for entry in entries:
        known.validate(entry)


def test_the_file_has_the_classes_that_write_a_report() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert FILE.read_text("utf-8") == report_schema.text()


def test_each_key_has_a_description() -> None:
    definitions = [SCHEMA, *SCHEMA["$defs"].values()]
    for definition in definitions:
        parts = [*definition.get("properties", {}).values()]
        parts += definition.get("oneOf", [])
        assert parts
        for part in parts:
            assert part["description"].endswith("."), part


@pytest.mark.parametrize(
    "name", ["State", "ResultKind", "Severity", "NotRunKind", "Breakdown", "Returned"]
)
def test_the_page_lists_the_values_that_messages_speak_of(name: str) -> None:
    page = (ROOT / "docs" / "report.md").read_text("utf-8")
    for one in SCHEMA["$defs"][name]["oneOf"]:
        assert f"`{one['const']}`" in page
