"""docs/report.md names every field of a report, in the words of the classes that make
it.

`python tests/checking/report/test_schema.py` writes the page.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec

from onnxgather.checking import cases, results
from onnxgather.checking import known_differences as known
from onnxgather.checking.known_differences import Known
from onnxgather.checking.lanes import lane
from onnxgather.checking.results import Report
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere import child, worker
from onnxgather.core.output import result_states as states

PAGE = Path(__file__).parents[3] / "docs" / "report.md"  # the file also runs by itself
MODULES = (cases, child, worker, lane, results, known)

HEAD = """\
# The report of `onnxgather check --json`

At the end of this page you can write a program that reads a report. This command writes one:

```sh
onnxgather check --corpus -k gather/float32 --lanes cpu --json=report.json
```

The file is a [Report](#report), as JSON in UTF-8. A [CaseResult](#caseresult) in it has the `state` of a case on each lane.

- A program reads `state`, `kind` and the facts beside them. Sentences are for people, and their wording may change at any time.
- If a field that is not required would be null, false, 0 or empty, it is absent.
- Ignore keys that your program does not know, as a field may be added. If a field goes away or changes its meaning, the number of `schema` grows.
- A file of [known differences](provider-ci.md#keep-a-file-of-known-differences) is an array of [Known](#known).

`python tests/checking/report/test_schema.py` writes this page from the classes that write the report.
"""  # noqa: E501


def documented() -> dict[str, dict[str, str]]:
    """The docstrings of the attributes of every class, by the names of both."""
    found: dict[str, dict[str, str]] = {}
    for module in MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                pairs = pairwise(node.body)
                texts = found[node.name] = dict[str, str]()
                for one, after in pairs:
                    if isinstance(after, ast.Expr) and isinstance(
                        after.value, ast.Constant
                    ):
                        if isinstance(one, ast.AnnAssign) and isinstance(
                            one.target, ast.Name
                        ):
                            texts[one.target.id] = plain(after.value.value)
                        elif isinstance(one, ast.Assign) and isinstance(
                            one.targets[0], ast.Name
                        ):
                            texts[one.targets[0].id] = plain(after.value.value)
    return found


def plain(text: Any) -> str:
    """A docstring on one line, as a page about JSON says it."""
    return re.sub(r"\bNone\b", "absent", " ".join(str(text).split()))


def type_text(schema: dict[str, Any]) -> str:
    """A JSON schema of one value in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        (only,) = [kind for kind in schema["anyOf"] if kind.get("type") != "null"]
        return type_text(only)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    if schema.get("type") == "array":
        return (
            f"array of {type_text(schema['items'])}" if "items" in schema else "array"
        )
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return f"object of {type_text(schema['additionalProperties'])}"
    if schema.get("contentEncoding") == "base64":
        return "base64"
    return str(schema.get("type", "any"))


def sections() -> Iterator[str]:
    """Yield the page part by part."""
    yield HEAD
    _, components = msgspec.json.schema_components([Report, Known])
    texts = documented()
    classes = {
        name: value for module in MODULES for name, value in vars(module).items()
    }
    names = ["Report", *(name for name in components if name != "Report")]
    for name in names:
        schema = components[name]
        made: Any = classes[name]
        prose, _, _ = (made.__doc__ or "").partition("Example:\n")
        yield f"## {name}\n\n{plain(prose)}\n"
        if issubclass(made, Enum):
            rows = [
                f"| `{member.value}` | {said(made, member.name)} |" for member in made
            ]
            yield "\n".join(["| value | meaning |", "| --- | --- |", *rows]) + "\n"
            continue
        rows = list[str]()
        for field, kind in schema["properties"].items():
            required = " (required)" if field in schema.get("required", ()) else ""
            meaning = (
                "The version of this schema."
                if field == "schema"
                else texts_of(made, texts).get(field, "")
            )
            rows.append(f"| `{field}`{required} | {type_text(kind)} | {meaning} |")
        yield (
            "\n".join(["| field | type | meaning |", "| --- | --- | --- |", *rows])
            + "\n"
        )
    kinds = meanings(runtime, "NotRunKind")
    assert [*kinds] == [*get_args(runtime.NotRunKind)]
    yield literals("not_run of a result", kinds)
    told = meanings(states, "State")
    assert [*told] == [*states.STATES]
    yield literals("state of a result", told)


def meanings(module: ModuleType, name: str) -> dict[str, str]:
    """What the docstring of a set of literals says of each, as `literal: meaning.`"""
    body = ast.parse(inspect.getsource(module)).body
    for one, after in pairwise(body):
        named = isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name
        if named and isinstance(after, ast.Expr):
            text = plain(ast.literal_eval(after.value))
            return dict(re.findall(r"([A-Za-z-]+): ([^.]+)\.", text))
    raise LookupError(name)


def literals(title: str, told: dict[str, str]) -> str:
    rows = [f"| `{value}` | {meaning} |" for value, meaning in told.items()]
    return (
        "\n".join([f"## {title}\n", "| value | meaning |", "| --- | --- |", *rows])
        + "\n"
    )


def said(made: type[Enum], member: str) -> str:
    return documented()[made.__name__].get(member, "")


def texts_of(made: type, texts: dict[str, dict[str, str]]) -> dict[str, str]:
    """The docstrings of a class's attributes, those of its bases included."""
    found: dict[str, str] = {}
    for base in reversed(made.__mro__):
        found |= texts.get(base.__name__, {})
    return found


def test_the_page_is_the_schema() -> None:
    assert PAGE.read_text(encoding="utf-8") == "\n".join(sections())


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(sections()), encoding="utf-8")
