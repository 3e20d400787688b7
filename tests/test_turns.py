"""The turns of slow tests, which `--one-slow-in` runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from folders import ROOT

QUICK = ["quick", "rows[0]"]
ALONE = "alone"
ROWS = [f"rows[{row}]" for row in range(1, 8)]
FEW = [f"few[{row}]" for row in range(6)]
"""Of every three of these the first is quick."""


class Item:
    """A test, of which the hook reads the name and the marks."""

    def __init__(self, name: str) -> None:
        self.nodeid = name
        self.marks = list[Any]()
        if name in (ALONE, *ROWS):
            self.add_marker("slow")
        if name in FEW:
            self.add_marker(pytest.mark.one_quick_in(3).mark)

    def add_marker(self, mark: Any) -> None:
        is_name = isinstance(mark, str)
        self.marks.append(SimpleNamespace(name=mark) if is_name else mark)

    def get_closest_marker(self, name: str) -> Any:
        return next((mark for mark in self.marks if mark.name == name), None)


def left_in(request: pytest.FixtureRequest, options: dict[str, Any]) -> set[str]:
    """Return the names of the tests that the options leave in."""
    plugin: Any = request.config.pluginmanager.get_plugin(
        str(ROOT / "tests" / "conftest.py")
    )
    items = [Item(name) for name in (*QUICK, ALONE, *ROWS, *FEW)]
    config = SimpleNamespace(getoption=options.get)
    plugin.pytest_collection_modifyitems(
        cast("pytest.Config", config), cast("list[pytest.Item]", items)
    )
    return {item.nodeid for item in items if not item.get_closest_marker("skip")}


def test_quick_tests_alone_run_without_an_option(
    request: pytest.FixtureRequest,
) -> None:
    ran = left_in(request, {"--turn": 0})
    assert ran == {*QUICK, "few[0]", "few[3]"}


@pytest.mark.parametrize("first_day", [0, 739_000])
def test_turns_run_each_slow_test_once(
    request: pytest.FixtureRequest, first_day: int
) -> None:
    every_day = {*QUICK, ALONE, "few[0]", "few[3]"}
    in_turns = list[str]()
    for day in range(first_day, first_day + 4):
        ran = left_in(request, {"--one-slow-in": 4, "--turn": day})
        assert ran > every_day
        in_turns += ran - every_day
    assert sorted(in_turns) == sorted({*ROWS, *FEW} - every_day)
