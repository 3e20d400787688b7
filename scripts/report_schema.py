"""Writes the JSON Schema of a report: `python scripts/report_schema.py`.

The schema has the classes that write a report, and the docstrings of their fields.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec

from onnxgather.checking import cases, known_differences, results
from onnxgather.checking.known_differences import Known
from onnxgather.checking.lanes import lane
from onnxgather.checking.results import Report
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere import child, worker
from onnxgather.core.output import result_states

SCHEMA = Path(results.__file__).with_name("report.schema.json")

MODULES = (cases, child, worker, lane, results, known_differences, result_states)

CLASSES: dict[str, Any] = {
    name: value for module in MODULES for name, value in vars(module).items()
}

ALIKE = {
    "CasePattern": "CaseResult",
    "ResultPattern": "Result",
}
"""Classes whose fields without a docstring are fields of another class."""

LITERALS = {"State": result_states, "NotRunKind": runtime}
"""Sets of values that are no classes, with their modules."""

DESCRIPTION = """\
The report of `onnxgather check --json`. Sentences in it are for people, and their \
wording may change at any time. A file of known differences is an array of Known."""

Schema = dict[str, Any]


def schema() -> Schema:
    """Return the schema of a report, with all classes under `$defs`."""
    _, classes = msgspec.json.schema_components(
        [Report, Known], ref_template="#/$defs/{name}"
    )
    texts = docstrings()
    definitions = {name: _definition(name, classes[name], texts) for name in classes}
    for name, module in LITERALS.items():
        definitions[name] = _values(meanings(module, name))
    report = definitions.pop("Report")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report",
        **report,
        "description": DESCRIPTION,
        "$defs": dict(sorted(definitions.items())),
    }


def _definition(name: str, drawn: Schema, texts: dict[str, dict[str, str]]) -> Schema:
    """Return the schema of a class, from the one that msgspec draws."""
    described = CLASSES[name]
    text, _, _ = (described.__doc__ or "").partition("Example:\n")
    if issubclass(described, Enum):
        values = {member.value: texts[name][member.name] for member in described}
        return {"description": plain(text), **_values(values)}
    properties: Schema = {}
    for key, value in drawn["properties"].items():
        if key == "schema":
            meaning = "The version of the report's format."
        else:
            meaning = _meaning(described, key, texts)
        properties[key] = {"description": meaning, **_value(value, described)}
    return {
        "description": plain(text),
        "type": "object",
        "properties": properties,
        "required": drawn.get("required", []),
        "additionalProperties": False,
    }


def _meaning(described: Any, key: str, texts: dict[str, dict[str, str]]) -> str:
    """Return the docstring of a field, which a base or a class alike may have."""
    names = [base.__name__ for base in described.__mro__]
    names += [ALIKE[name] for name in names if name in ALIKE]
    found = [texts[name][key] for name in names if key in texts.get(name, {})]
    if not found:
        raise LookupError(f"{described.__name__}.{key} must have a docstring")
    return found[0]


def _value(drawn: Schema, described: Any) -> Schema:
    """Return the schema of a value, with null only where it is written."""
    if "anyOf" in drawn:
        (only,) = [kind for kind in drawn["anyOf"] if kind != {"type": "null"}]
        value = _value(only, described)
        if described.__struct_config__.omit_defaults:
            return value
        return {"anyOf": [value, {"type": "null"}]}
    value = {key: part for key, part in drawn.items() if key != "default"}
    for name, module in LITERALS.items():
        if value.get("enum") == sorted(get_args(getattr(module, name))):
            return {"$ref": f"#/$defs/{name}"}
    if "pattern" in value:
        value["pattern"] = value["pattern"].replace(r"\Z", "$")
    return value


def _values(meanings: dict[str, str]) -> Schema:
    choices = [{"const": value, "description": meanings[value]} for value in meanings]
    return {"oneOf": choices}


def docstrings() -> dict[str, dict[str, str]]:
    """Return the docstrings of the fields of each class, by the names of both."""
    texts: dict[str, dict[str, str]] = {}
    for module in MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                texts[node.name] = _fields(node.body)
    return texts


def _fields(body: list[ast.stmt]) -> dict[str, str]:
    """Return the texts that stand after assignments, by the assigned names."""
    texts: dict[str, str] = {}
    for one, after in pairwise(body):
        if not isinstance(after, ast.Expr) or not isinstance(after.value, ast.Constant):
            continue
        if isinstance(one, ast.AnnAssign):
            texts[ast.unparse(one.target)] = plain(after.value.value)
        elif isinstance(one, ast.Assign):
            texts[ast.unparse(one.targets[0])] = plain(after.value.value)
    return texts


def meanings(module: ModuleType, name: str) -> dict[str, str]:
    """Return what the docstring of a set of literals says of each."""
    text = _fields(ast.parse(inspect.getsource(module)).body)[name]
    said = dict(re.findall(r"([A-Za-z-]+): ([^.]+)\.", text))
    return {
        value: f"{meaning[0].upper()}{meaning[1:]}." for value, meaning in said.items()
    }


def plain(text: Any) -> str:
    """Return a docstring on one line, in the words of JSON."""
    return re.sub(r"\bNone\b", "absent", " ".join(str(text).split()))


def text() -> str:
    """Return the text of the file."""
    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(text(), encoding="utf-8")
