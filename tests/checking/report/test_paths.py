"""Reports that name nothing of the machine that made them by its path."""

from __future__ import annotations

import os

import msgspec
import pytest
from msgspec.structs import replace
from report_samples import CPU, ERROR, OPENVINO, entry, gather_case, passed, report_of

from onnxgather.checking.report import html, junit, markdown, without_paths
from onnxgather.checking.results import Invalid, Report, ResultKind

HOME = os.path.join(os.sep, "home", "jane doe")
ENVIRONMENT = os.path.join(HOME, "ov")
PYTHON = os.path.join(ENVIRONMENT, "bin", "python3")
LIBRARY = os.path.join(os.sep, "opt", "plug ins", "libwebgpu.so")


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(os.path, "expanduser", lambda _: HOME)  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]
    reason = (
        f"{PYTHON!r} in {ENVIRONMENT}/lib/x.so; {HOME}/m.json, {LIBRARY} of {HOME}2"
    )
    lanes = [
        replace(CPU, python="python3"),
        replace(OPENVINO, python=PYTHON, not_run=reason, versions={"at": HOME}),
    ]
    bad = replace(ERROR, reason=reason, message=reason, detail=reason)
    case = replace(entry(gather_case(HOME), passed("cpu"), bad), file=f"{HOME}/m.json")
    return report_of(
        lanes, case, invalid=[Invalid(f"{HOME}/a", reason)], unusable=[reason]
    )


def test_no_report_has_a_path_of_the_machine(report: Report) -> None:
    shown = without_paths(report, [LIBRARY])
    made = [msgspec.json.encode(shown), junit(shown), html(shown), markdown(shown)]
    for text in made:
        assert b"jane doe" not in text.replace(b"jane doe2", b"")
        assert b"plug ins" not in text
    assert b"jane doe" in msgspec.json.encode(report)


def test_names_stay_in_place_of_paths(report: Report) -> None:
    shown = without_paths(report, [LIBRARY])
    said = f"'python3' in .../lib/x.so; ~/m.json, libwebgpu.so of {HOME}2"
    assert (shown.lanes[1].not_run, shown.lanes[1].python) == (said, "python3")
    (case,) = shown.cases
    result = case.results[1]
    assert (result.reason, result.detail, case.file) == (said, said, "~/m.json")
    assert (shown.unusable, shown.invalid) == ([said], [Invalid("~/a", said)])
    assert case.evidence == report.cases[0].evidence


def test_a_report_without_such_paths_is_as_it_was() -> None:
    report = report_of([replace(CPU, python=None)], entry(gather_case(), passed("cpu")))
    shown = without_paths(report)
    assert shown == report
    assert type(shown.cases[0].results[0].kind) is ResultKind
    assert msgspec.json.encode(shown) == msgspec.json.encode(report)


def test_a_library_of_the_current_folder_is_named_by_its_name() -> None:
    reason = f"cannot load {os.path.abspath('plugin.so')}"
    shown = without_paths(report_of([replace(CPU, not_run=reason)]), ["plugin.so"])
    assert shown.lanes[0].not_run == "cannot load plugin.so"
