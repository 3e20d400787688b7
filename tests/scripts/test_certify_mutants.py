"""The script that certifies changed models."""

from __future__ import annotations

import random
import subprocess
import sys

import onnx
import onnx.parser
import pytest
from certify_mutants import changes, differing_levels, mutants
from folders import ROOT

from onnxgather.proving.certify import certify

pytest.importorskip("z3")

MODEL = """
<ir_version: 8, opset_import: ["": 17]>
graph (float[3] InputTensor, int32[2] IndicesTensor) => (float[2] OutputTensor)
<int32 last = {2}>
{
    least = Min (IndicesTensor, last)
    clamped = Clip (least, last)
    cast = Cast <to = 7> (clamped)
    OutputTensor = Gather <axis = 0> (InputTensor, cast)
}
"""


def test_a_change_is_another_constant_order_attribute_operator_or_a_node_less() -> None:
    assert [what for what, _ in changes(onnx.parser.parse_model(MODEL))] == [
        "last by 1",
        "last by -1",
        "Min least swapped",
        "Min least as Max",
        "Min least left out for IndicesTensor",
        "Min least left out for last",
        "Clip clamped swapped",
        "Clip clamped without a bound",
        "Clip clamped left out for least",
        "Clip clamped left out for last",
        "Cast cast to INT32",
        "Cast cast to UINT64",
        "Cast cast to UINT32",
        "Cast cast to FLOAT",
        "Cast cast to DOUBLE",
        "Cast cast to FLOAT16",
        "Cast cast left out for clamped",
        "Gather OutputTensor swapped",
        "Gather OutputTensor axis by 1",
        "Gather OutputTensor axis by -1",
        "Gather OutputTensor beside its Shape",
        "Gather OutputTensor beside its Size",
        "Gather OutputTensor left out for InputTensor",
        "Gather OutputTensor left out for cast",
    ]


def test_the_mutants_of_a_seed_are_the_same_each_time() -> None:
    first, second = (next(mutants("3/1")) for _ in range(2))
    assert (first.name, first.model) == (second.name, second.model)


@pytest.mark.slow
def test_a_mutant_that_a_certificate_proves_does_not_differ_and_others_do() -> None:
    states = set[str]()
    for number in range(12):
        mutant = next(mutants(f"0/{number}"))
        found = certify(mutant.desc, mutant.policy, model=mutant.model)
        if found.state == "proved":
            assert not differing_levels(mutant, random.Random(number))
        states.add(found.state)
    assert {"proved", "refuted"} <= states


@pytest.mark.slow
def test_it_counts_what_came_of_the_mutants() -> None:
    command = [
        sys.executable,
        "scripts/certify_mutants.py",
        "--count",
        "4",
        "--jobs",
        "1",
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert (
        sum(
            int(line.split(": ")[1].split()[0])
            for line in done.stdout.splitlines()
            if " of 4" in line
        )
        == 4
    )
