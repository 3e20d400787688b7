"""The guards of exported networks answer as `check_inputs`, in Python and in ONNX."""

from __future__ import annotations

from typing import Any

import pytest
from exported_networks import EACH, NETWORKS
from guard_cases import wild_inputs
from network_draft import session
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.proof.contract_python import guard
from onnxgather.core.model.write import check_model

LARGEST = 10_000
"""The most bytes of a guard of a network."""


@pytest.mark.parametrize("name", one_quick_in(4, EACH))
def test_three_checks_of_a_network_agree(name: str) -> None:
    model, inputs = NETWORKS[name]
    contract = og.audit(model, levels=()).contract
    made = og.contract_model(contract, model)
    check_model(made)
    assert made.ByteSize() < LARGEST
    names = [each.name for each in made.graph.input]
    tried = session(made, 3)
    printed = dict[str, Any]()
    exec(guard(contract), printed)
    answers = list[bool]()
    for fed in wild_inputs(inputs):
        answers.append(meets(og.check_inputs, contract, fed))
        assert meets(printed["check"], fed) == answers[-1]
        ok, broken = tried.run(None, {each: fed[each] for each in names})
        assert (bool(ok), not broken.size) == (answers[-1], answers[-1])
    assert answers[0]
    assert contract["conditions"] == [] or not all(answers)


def meets(check: Any, *given: Any) -> bool:
    """Whether a check raises no error."""
    try:
        check(*given)
    except (og.OnnxGatherError, ValueError, IndexError):
        return False
    return True
