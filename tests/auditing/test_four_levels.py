"""ONNX Runtime's levels of optimizations: each does what the lowest one does, but for
the quirks of a table; and what is proved holds at each."""

from __future__ import annotations

from random import Random
from typing import Any

import level_quirks
import numpy as np
import pytest
from audit_claims import Checked, check, proved
from four_levels import (
    LEVELS,
    Difference,
    Failure,
    Outcome,
    compared,
    differences,
    four_sessions,
)
from level_claims import (
    HAS_LEVELS,
    check_form,
    check_levels,
    compare_levels,
    of_the_file,
)
from level_forms import FORMS, drawn
from level_quirks import QUIRKS, Quirk, explained
from onnx import parser
from onnxruntime import __version__ as installed
from random_networks import graph
from rings import by_ring, one_quick_in
from runtime_faults import IS_OLD

FALSE_PROOFS = (
    "rank_of_a_quotient",
    "rank_of_a_scaled_product",
)
"""Forms of which the file alone does not tell that a level fails."""

LEAST_RUNS = 0.03
"""The least share of the runs of a form that return something at the lowest level."""


def failure(operator: str, node: str, message: str) -> Failure:
    """What ONNX Runtime says of a node."""
    place = f"Non-zero status code returned while running {operator} node. "
    return Failure(f"{place}Name:'{node}' Status Message: {message}")


def skip_if_it_ends_the_program(form: str) -> None:
    """Skip a form with which ONNX Runtime ends the program."""
    if IS_OLD and form == "two_that_fail":
        pytest.skip("1.24.4 ends the program, and so the other tests")


@pytest.mark.parametrize("name", one_quick_in(20, FORMS))
def test_each_level_does_what_the_lowest_one_does(name: str) -> None:
    skip_if_it_ends_the_program(name)
    found = Checked()
    for seed in range(8):
        random = Random(seed)
        form = drawn(name, random)
        compare_levels(found, name, form.model, [form.feeds(random) for _ in "abc"])
    assert not found.violations
    runs = found.runs["ended"] + found.runs["stopped"]
    assert runs
    assert found.runs["ended"] >= LEAST_RUNS * runs or name == "two_that_fail"


def test_networks_are_the_same_at_each_level() -> None:
    runs = 0
    for seed in range(by_ring(6, 60)):
        found = check_levels(graph(seed), Random(seed))
        assert not found.violations
        runs += found.runs["ended"]
    assert runs


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.form)
def test_each_quirk_is_needed(quirk: Quirk, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed.startswith(quirk.versions):
        pytest.skip(f"measured on {', '.join(quirk.versions)}")
    skip_if_it_ends_the_program(quirk.form)
    for seed in range(200):
        random = Random(seed)
        form = drawn(quirk.form, random)
        feeds = form.feeds(random)
        for each in compared(form.model, feeds):
            if explained(form.model, feeds, each) == quirk.name:
                others = tuple(other for other in QUIRKS if other is not quirk)
                monkeypatch.setattr(level_quirks, "QUIRKS", others)
                assert explained(form.model, feeds, each) != quirk.name
                return
    pytest.fail("no graph of the form shows it")


def test_a_difference_that_no_quirk_has_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(level_quirks, "QUIRKS", ())
    found = Checked()
    for seed in range(20):
        random = Random(seed)
        form = drawn("gather_of_range", random)
        compare_levels(found, "form", form.model, [form.feeds(random)])
    unknown = {key.split(" at ")[0] for key in found.runs if "unknown" in key}
    assert unknown == {"returns", "shape"}


@pytest.mark.parametrize("name", FALSE_PROOFS)
def test_an_audit_of_the_file_alone_misses_what_a_level_does(name: str) -> None:
    for seed in range(100):
        found = check_form(name, Random(seed), of_the_file)
        if found.violations:
            assert {row["kind"] for row in found.violations} == {"levels"}
            return
    pytest.fail("no gather that is proved fails")


@pytest.mark.skipif(not HAS_LEVELS, reason="the audit is that of the file alone")
@pytest.mark.parametrize("name", one_quick_in(22, FORMS))
def test_no_gather_that_is_proved_fails_at_a_level(name: str) -> None:
    states = 0
    for seed in range(by_ring(4, 8)):
        found = check_form(name, Random(seed))
        assert not found.violations
        states += sum(found.states.values())
    assert states


@pytest.mark.parametrize(
    ("trap", "kind"), [("reciprocal", "levels"), ("nan_to_bool", "file")]
)
def test_a_claim_that_a_higher_level_breaks_is_a_kind(trap: str, kind: str) -> None:
    for seed in range(60):
        found = check(graph(seed, trap=trap), Random(seed), proved)
        rows = [row for row in found.violations if row["node"].startswith(trap)]
        if rows:
            assert {row["kind"] for row in rows} == {kind}
            return
    pytest.fail("no index leaves its axis")


@pytest.mark.parametrize(
    ("other", "is_like"),
    [
        (failure("Gather", "g", "indices element out of data bounds, idx=4"), True),
        (failure("Gather", "h", "idx=9 out of bounds"), True),
        (failure("FusedGather", "g/fused", "idx=9 out of bounds"), True),
        (failure("Gather", "g", "no memory"), False),
        (failure("Slice", "h", "idx=9 out of bounds"), False),
        (Failure("idx=4 out of bounds", at_load=True), False),
    ],
)
def test_failures_are_alike_by_their_node_and_by_their_kind(
    other: Failure, is_like: bool
) -> None:
    first = failure("Gather", "g", "indices element out of data bounds, idx=3")
    assert first.is_like(other) == is_like


@pytest.mark.parametrize(
    ("got", "kind"),
    [
        (np.array([0, 1]), ""),
        (np.array([0, 2]), "bytes"),
        (np.array([[0, 1]]), "shape"),
        (np.array([0, 1], np.int32), "type"),
        (failure("Gather", "g", "out of bounds"), "fails"),
    ],
)
def test_a_difference_has_a_kind(got: Any, kind: str) -> None:
    wanted = np.array([0, 1])
    outcome: Outcome = got if isinstance(got, Failure) else {"y": got}
    kinds = [each.kind for each in differences([{"y": wanted}, outcome])]
    assert kinds == [kind] * bool(kind)
    back = [each.kind for each in differences([outcome, {"y": wanted}])]
    assert back == ["returns" if kind == "fails" else kind] * bool(kind)


def test_zeros_of_another_sign_are_other_bytes() -> None:
    pair: list[Outcome] = [{"y": np.array([0.0])}, {"y": np.array([-0.0])}]
    assert [each.kind for each in differences(pair)] == ["bytes"]


def test_a_model_that_is_refused_is_refused_at_each_level() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)'
        " { y = NoOperator(x) }"
    )
    sessions = four_sessions(model)
    assert [each.at_load for each in sessions] == [True] * len(LEVELS)
    assert compared(model, {}) == []


def test_a_difference_is_told_in_a_line() -> None:
    error = failure("Gather", "g", "idx=3 out of bounds")
    each = Difference(2, "fails", "", {"y": 1}, error)
    assert str(each) == (
        "extended: fails: {'y': 1}, but fails: Gather g: idx=3 out of bounds"
    )
