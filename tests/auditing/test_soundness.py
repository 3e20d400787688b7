"""No claim of the audit is broken by a random network, and the networks would show
it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from audit_claims import check, proved
from network_draft import session
from random_networks import CHAINS, OTHERS, TRAPS, graph
from rings import one_quick_in, quick_alone

from onnxgather.auditing.operators import index_operators
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.output_bounds import TRANSFERS
from onnxgather.auditing.proof.conditions import Search


@pytest.mark.parametrize("trap", one_quick_in(8, TRAPS))
def test_each_trap_has_an_index_that_leaves_its_axis(trap: str) -> None:
    for seed in range(200):
        found = check(graph(seed, trap=trap), Random(seed), proved)
        claims = [row for row in found.violations if row["node"].startswith(trap)]
        if any(row["claim"].startswith("proved, but") for row in claims):
            return
    pytest.fail("no index leaves its axis")


@pytest.mark.parametrize("chain", one_quick_in(21, CHAINS))
def test_onnx_runtime_takes_each_chain(chain: str) -> None:
    taken = 0
    for seed in range(12):
        made = graph(seed, chain=chain)
        names = [node.name for node in made.draft.nodes]
        session(made.model)
        taken += any(name.startswith(chain) for name in names)
    assert taken > 6


@pytest.mark.slow
def test_the_networks_have_each_operator_of_the_audit() -> None:
    drawn = {node.op_type for seed in range(400) for node in graph(seed).draft.nodes}
    assert TRANSFERS.keys() - drawn == set()


@pytest.mark.parametrize("operator", quick_alone(["ArrayFeatureExtractor"], OTHERS))
def test_a_mistake_in_what_an_operator_takes_is_seen(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = index_operators.room_of

    def wrong(call: Call, *given: Any) -> Any:
        """Tell one index too much of the operator."""
        size = right(call, *given)
        return size if size is None or call.operator != operator else size + 1

    monkeypatch.setattr(index_operators, "room_of", wrong)
    for seed in range(400):
        made = graph(seed)
        if any(node.op_type == operator for node in made.gathers):
            found = check(made, Random(seed))
            if any(f".{operator}." in row["node"] for row in found.violations):
                return
    pytest.fail("no network shows the mistake")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["_fails_beyond", "_is_exact_size"])
def test_a_condition_that_is_told_to_be_exact_and_is_not_is_seen(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*given: Any) -> Any:
        """Tell that every condition is exact."""
        return [True] if mistake == "_fails_beyond" else True

    monkeypatch.setattr(Search, mistake, wrong)
    for seed in range(600):
        found = check(graph(seed), Random(seed))
        if any(row["claim"].startswith("exact, but") for row in found.violations):
            return
    pytest.fail("no network shows the mistake")
