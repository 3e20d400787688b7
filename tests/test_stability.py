"""What docs/stability.md promises is what the code has."""

from __future__ import annotations

import re

import msgspec
from folders import ROOT

from onnxgather.auditing.records import Audit
from onnxgather.checking.results import SCHEMA

PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")


def test_the_schemas_are_those_that_the_commands_write() -> None:
    written = {"check": str(SCHEMA)}
    (audit,) = [each for each in msgspec.structs.fields(Audit) if each.name == "schema"]
    written["audit"] = str(audit.default)
    for command in ("certify", "convert"):
        code = (ROOT / "onnxgather" / "cli" / f"{command}.py").read_text("utf-8")
        (written[command],) = re.findall(r'"schema": (\d+)', code)
    assert dict(re.findall(r"the JSON of `(\w+)`, of `schema` (\d+)", PAGE)) == written
