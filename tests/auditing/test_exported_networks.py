"""What the audit proves of exported networks, beside what ONNX Runtime computes of
them."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from audit_claims import ELEMENTS, limit, put
from command_line import call
from exported_networks import EACH, NETWORKS
from folders import ROOT
from four_levels import OUT_OF_BOUNDS
from network_draft import Feeds, numbers, results, session
from rings import one_quick_in
from strength import ZIP, measured

import onnxgather as og
from onnxgather.auditing.proof.contract import Condition

TOTAL = {
    "file": {"proved": 137, "proved-if": 62},
    "contract": {"proved": 199},
    "shapes and ranges": {"proved": 199},
}
"""How many operators with indices are in each state, by what is known of the inputs;
without those that compute shapes."""

DRAWS = 8
"""How often a network runs with wild inputs, at each level of graph optimizations."""

HARMLESS = {
    "longt5.ts.onnx": {("attention_mask", -4), ("attention_mask", 4)},
    "opt.ts.onnx": {("in1", -1), ("in1", 2)},
}
"""Where a contract asks for more than it must: the inputs, and numbers just beyond its
ends with which no index leaves its axis. A sum of a mask is bounded for the elements
between two ends alone."""

NO_ERROR = {
    "gpt2_bits4.onnx": {("in0", -1001), ("in0", 1000), ("in0", 1025)},
    "roberta_bits4.onnx": {("in0", -1001), ("in0", 1000)},
}
"""Inputs of GatherBlockQuantized beyond a contract, which ONNX Runtime gives rows of
zeros for; its version 1.24 fails there."""

LARGEST_SIZE = 2000
"""The largest open size with which a network runs."""


@pytest.mark.slow
def test_so_many_gathers_of_the_networks_are_proved() -> None:
    total: dict[str, Counter[str]] = {}
    for model, inputs in NETWORKS.values():
        for what, counts in measured(model, inputs).items():
            total.setdefault(what, Counter()).update(counts)
    assert total == TOTAL


@pytest.mark.slow
def test_the_readme_counts_the_networks_whose_indices_a_wrong_input_takes_out(
    tmp_path: Path,
) -> None:
    """An exact condition says that inputs beyond it take an index out of range."""
    exact = 0
    for model, _ in NETWORKS.values():
        audited = og.audit(model)
        conditions = audited.contract["conditions"]
        has_exact = any(condition["exact"] for condition in conditions)
        assert (audited.verdict == "can-leave") == has_exact
        exact += has_exact
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    claim = f"in {exact} of {len(NETWORKS)} networks it can"
    assert claim in page
    assert f"the {len(NETWORKS)} exported networks in `tests/data/networks.zip`" in page

    with zipfile.ZipFile(ZIP) as archive:
        archive.extractall(tmp_path)
    result = call("audit", str(tmp_path))
    first_line = "21 of 29: a wrong input can leave an axis; 1: perhaps; 7: never"
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, first_line)
    assert first_line.startswith(f"{exact} of {len(NETWORKS)}: ")


@pytest.mark.parametrize("name", one_quick_in(4, EACH))
def test_under_its_contract_each_gather_of_a_network_is_proved_that_can_be(
    name: str,
) -> None:
    model, _ = NETWORKS[name]
    bare = og.audit(model)
    before = [gather.range.state for gather in bare.gathers]
    under = [
        gather.range.state for gather in og.audit(model, assume=bare.contract).gathers
    ]
    assert under == [{"proved-if": "proved"}.get(state, state) for state in before]


@pytest.mark.parametrize("name", one_quick_in(4, EACH))
def test_no_index_of_a_network_leaves_its_axis_under_its_contract(name: str) -> None:
    model, inputs = NETWORKS[name]
    audited = og.audit(model)
    og.check_inputs(audited.contract, inputs)
    free = {g.node for g in audited.gathers if g.range.state == "not-proved"}
    random, ended = Random(name), 0
    for level in (0, 3):
        whole = session(model, level)
        assert results(whole, inputs)
        for k in range(DRAWS):
            fed = wild(random, inputs, audited.contract, real_sizes=k % 2 == 0)
            message = failure(whole, fed)
            ended += not message
            at_fault = re.findall(r"Name:'([^']*)'", message)[-1:]
            assert not OUT_OF_BOUNDS.search(message) or free & {*at_fault}, message
    assert ended or not audited.gathers


@pytest.mark.parametrize("name", one_quick_in(4, EACH))
def test_just_beyond_each_end_of_a_contract_an_index_leaves_its_axis(name: str) -> None:
    model, inputs = NETWORKS[name]
    contract = og.audit(model).contract
    whole, harmless = session(model), set[tuple[str, int]]()
    for condition in conditions_for(contract, inputs):
        for end, way in ((condition["low"], -1), (condition["high"], 1)):
            if condition["of"] == "sizes" or end is None:
                continue
            beyond, which = end + way, condition["input"]
            if condition["of"] == "size":
                fed = resized(inputs, contract, {condition["expression"]: beyond})
            else:
                fed = dict(inputs)
                put(fed, condition, beyond)
            if not OUT_OF_BOUNDS.search(failure(whole, fed)):
                harmless.add((which, beyond))
    assert harmless - NO_ERROR.get(name, set()) == HARMLESS.get(name, set())


def conditions_for(contract: dict[str, Any], inputs: Feeds) -> list[dict[str, Any]]:
    """The conditions of a contract, with numbers as ends, for inputs."""
    sizes = {
        name: inputs[which].shape[k]
        for name, ((which, k), *_) in contract["sizes"].items()
    }
    conditions = msgspec.convert(contract["conditions"], list[Condition])
    return [msgspec.to_builtins(each.with_numbers(sizes)) for each in conditions]


def resized(inputs: Feeds, contract: dict[str, Any], sizes: dict[str, int]) -> Feeds:
    """The inputs with other open sizes; their elements are repeated, or some are left
    out."""
    made = dict(inputs)
    for name, size in sizes.items():
        for which, k in contract["sizes"][name]:
            shape = [*made[which].shape]
            shape[k] = size
            made[which] = np.resize(made[which], shape)
    return made


def failure(whole: Any, fed: Feeds) -> str:
    """What ONNX Runtime says of a run that fails; "" where it ends."""
    try:
        results(whole, fed)
    except Exception as error:
        return str(error)
    return ""


def wild(
    random: Random, inputs: Feeds, contract: dict[str, Any], *, real_sizes: bool
) -> Feeds:
    """Inputs at the ends of the conditions of a contract, which they meet; some as they
    are."""
    named: dict[str, list[tuple[str, int]]] = {} if real_sizes else contract["sizes"]
    ends = {
        name: [
            end
            for each in contract["conditions"]
            for end in (each["low"], each["high"])
            if (each["of"], each["expression"]) == ("size", name)
            and end is not None
            and end <= LARGEST_SIZE
        ]
        for name in named
    }
    while True:
        sizes = {
            name: random.choice([1, 2, 3, inputs[which].shape[k], *ends[name]])
            for name, ((which, k), *_) in named.items()
        }
        fed = {
            name: array
            if random.random() < 0.3
            else numbers(random, str(array.dtype), array.shape)
            for name, array in resized(inputs, contract, sizes).items()
        }
        for condition in conditions_for(contract, fed):
            if condition["of"] in ELEMENTS:
                limit(fed, condition)
        try:
            og.check_inputs(contract, fed)
        except og.OnnxGatherError:  # the sizes do not meet the contract together
            assert not real_sizes
        else:
            return fed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"), [("gpt2_bits4.onnx", 2), ("roberta_bits4.onnx", 3)]
)
def test_a_quantized_gather_of_open_ids_is_proved_under_conditions(
    name: str, count: int
) -> None:
    model, inputs = NETWORKS[name]
    found = [g for g in og.audit(model).gathers if g.op == "GatherBlockQuantized"]
    assert len(found) == count
    word = Condition(of="values", input="in0", low=-1000, high=999, exact=True)
    assert [g.range.conditions for g in found if word in g.range.conditions] == [
        (word,)
    ]
    assert {g.range.state for g in found} <= {"proved-if", "proved"}
    wild = {**inputs, "in0": np.full_like(inputs["in0"], 1000)}
    (seen, *_) = (g.range for g in og.audit(model, wild).gathers if g.op == found[0].op)
    assert (seen.state, seen.found and seen.found.value) == ("out-of-range", 1000)
    assert seen.found
    assert (
        seen.found.providers["cpu"]
        == "No error: the output is 0 there; 1.24.4 fails instead."
    )


@pytest.mark.parametrize("name", ["gpt2_bits4.onnx", "roberta_bits4.onnx"])
def test_a_model_of_quantized_gathers_does_not_pass_where_all_must_be_proved(
    name: str, tmp_path: Path
) -> None:
    path, contract = str(tmp_path / name), str(tmp_path / "contract.json")
    Path(path).write_bytes(NETWORKS[name][0].SerializeToString())
    failing = ("audit", path, "--fail-on", "proved-if")
    assert call(*failing, "--contract", contract).exit_code == 1
    assert call(*failing, "--assume", contract).exit_code == 0
