"""What `harden --verify` tries: each check holds of a good model, and fails of a
planted one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import onnx
import pytest
from exported_networks import EACH, NETWORKS
from onnx_graphs import written
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.audit import (
    AuditedModel,
    Premises,
    audit_model,
    given_conditions,
)
from onnxgather.auditing.hardening.harden import HardenedModel, Left, hardened
from onnxgather.auditing.hardening.verify import (
    index_inputs,
    make_inputs,
    make_wild,
    verify,
)
from onnxgather.auditing.proof.contract import Condition
from onnxgather.core.model.network import read_network

EMBEDDING = written(
    "(int64[n] ids, float[n] x, int64[n] mask) => (y, m) <float[3] table = {0, 1, 2}>"
    " { z = Gather (table, ids)  y = Add (z, x)  m = Identity (mask) }"
)

LEFT = {"hand_scatter.onnx": [("r", "ReverseSequence")]}
"""The nodes that are left of the exported networks."""


@pytest.mark.parametrize("name", one_quick_in(15, EACH))
def test_a_hardened_network_holds_all_checks(name: str) -> None:
    network, inputs = NETWORKS[name]
    plain = Premises(read_network(network))
    done = hardened(plain)
    assert [(one.node, one.operator) for one in done.left] == LEFT.get(name, [])
    found = verify(plain, done, inputs=inputs)
    assert [one for one in found if not one.holds] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "policy"), [*zip(NETWORKS, cycle(["zero", "index=0"]), strict=False)]
)
def test_each_policy_is_proved_in_the_networks(name: str, policy: str) -> None:
    done = hardened(Premises(read_network(NETWORKS[name][0])), policy)
    assert [(one.node, one.operator) for one in done.left] == LEFT.get(name, [])
    again = hardened(Premises(read_network(done.model)), policy)
    assert (again.model, again.rewritten, again.left) == (done.model, [], done.left)


def said(
    done: HardenedModel, conditions: Sequence[Condition] = (), **given: object
) -> dict[str, tuple[bool, str]]:
    """Return what is said of a hardened form of the embedding, by the check."""
    premises = Premises(read_network(EMBEDDING), None, conditions)
    found = verify(premises, done, **given)  # pyright: ignore[reportArgumentType]
    return {one.check: (one.holds, one.said) for one in found}


def test_a_hardened_model_holds_all_checks() -> None:
    done = hardened(Premises(read_network(EMBEDDING)))
    assert said(done) == {
        "audit": (True, "1 node with indices, 0 left, 0 others not proved"),
        "bytes": (True, "equal bytes in 8 of 8 runs with inputs made with seed 0"),
        "wild": (True, "64 runs with wild ids, 0 failed"),
        "again": (True, "a second time changes nothing"),
    }
    inputs = {"ids": np.array([2]), "x": np.ones(1, np.float32), "mask": np.array([5])}
    assert said(done, inputs=inputs)["bytes"] == (
        True,
        "equal bytes in 1 of 1 run with given inputs",
    )


NAMES_THAT_ONNX_RUNTIME_DOES_NOT_READ = [
    "m.ort",
    pytest.param(
        os.fsdecode(b"\xff.onnx"),
        marks=pytest.mark.skipif(
            sys.platform != "linux", reason="its names of files are texts"
        ),
    ),
]


@pytest.mark.parametrize("name", NAMES_THAT_ONNX_RUNTIME_DOES_NOT_READ)
def test_a_model_is_run_whatever_the_name_of_its_file(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(EMBEDDING.SerializeToString())
    assert og.audit(path, levels=["basic"]).runtime is not None
    feeds = {"ids": np.array([1]), "x": np.ones(1, np.float32), "mask": np.array([5])}
    y, mask = og.Session(path).run(feeds)
    assert (y.tolist(), mask.tolist()) == ([2.0], [5])
    premises = Premises(read_network(path))
    found = verify(premises, hardened(premises))
    assert [one.check for one in found if one.holds] == [
        "audit",
        "bytes",
        "wild",
        "again",
    ]


@pytest.mark.parametrize("data_type", ["uint16", "uint32", "uint64"])
def test_unsigned_indices_are_made(data_type: str) -> None:
    model = written(
        f"({data_type}[n] ids) => (y) <float[3] table = {{0, 1, 2}}>"
        " { signed = Cast <to = 7> (ids)  y = Gather (table, signed) }"
    )
    plain = Premises(read_network(model))
    found = verify(plain, hardened(plain))
    assert [(one.check, one.holds) for one in found] == [
        ("audit", True),
        ("bytes", True),
        ("wild", True),
        ("again", True),
    ]


def test_a_model_is_audited_once_before_it_is_hardened_and_once_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audited = list[int]()

    def counted(premises: Premises) -> AuditedModel:
        audited.append(len(premises.network.proto.graph.node))
        return audit_model(premises)

    for module in ("harden", "verify"):
        name = f"onnxgather.auditing.hardening.{module}.audit_model"
        monkeypatch.setattr(name, counted)
    done = hardened(Premises(read_network(EMBEDDING)))
    after = len(done.model.graph.node)
    assert all(holds for holds, _ in said(done).values())
    assert audited == [3, after]


def test_a_model_of_which_no_node_is_rewritten_is_audited_once_to_be_hardened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hardened_once = hardened(Premises(read_network(EMBEDDING))).model
    audited = list[AuditedModel]()

    def counted(premises: Premises) -> AuditedModel:
        audited.append(audit_model(premises))
        return audited[-1]

    for module in ("harden", "verify"):
        name = f"onnxgather.auditing.hardening.{module}.audit_model"
        monkeypatch.setattr(name, counted)
    premises = Premises(read_network(hardened_once))
    done = hardened(premises)
    assert done.model.SerializeToString() == hardened_once.SerializeToString()
    assert done.audits == (audited[0], audited[0])
    assert len(audited) == 1

    # The verification asks what the new model is, and not the old one.
    assert all(result.holds for result in verify(premises, done))
    assert len(audited) == 2


@pytest.mark.slow
def test_a_seed_makes_the_same_inputs_in_each_process() -> None:
    code = """\
from onnx import parser
from onnxgather.auditing.audit import Premises, audit_model
from onnxgather.core.model.network import read_network
from onnxgather.auditing.inputs.formats import npz
from onnxgather.auditing.inputs.sets import input_sets
text = "g (float[a, b, c, d, e, f] x) => (y) { y = Neg (x) }"
model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\\n{text}')
sets, _ = input_sets(audit_model(Premises(read_network(model))))
print(npz(sets[0].arrays).hex())
"""
    made = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1


def test_a_model_that_is_not_hardened_fails() -> None:
    found = said(HardenedModel(EMBEDDING))
    assert [holds for holds, _ in found.values()] == [False, True, False, False]
    assert found["audit"][1] == "1 node with indices, 0 left, 1 others not proved"
    assert found["wild"][1].startswith("64 runs with wild ids, 57 failed, first: ")
    assert "indices element out of data bounds" in found["wild"][1]
    assert found["again"][1] == "a second time changes 1 node"


def test_a_model_that_computes_other_bytes_fails() -> None:
    other = onnx.ModelProto.FromString(EMBEDDING.SerializeToString())
    other.graph.node[1].op_type = "Sub"
    done = hardened(Premises(read_network(other)))
    assert said(done)["bytes"] == (
        False,
        "equal bytes in 0 of 8 runs with inputs made with seed 0",
    )


def test_wild_inputs_keep_the_ranges_that_are_given() -> None:
    plain = read_network(EMBEDDING)
    conditions = og.audit(EMBEDDING).contract
    given = given_conditions(plain, None, [conditions])
    done = hardened(Premises(plain, None, given))
    assert done.rewritten == []
    free = "0 runs, as no index depends on an input whose numbers are free"
    assert said(done, conditions=given)["wild"] == (True, free)


def test_an_input_of_a_node_that_is_left_stays_in_range() -> None:
    made = written(
        "(float[1, 1, 2, 2] x, int64[1, 1, 2, 2] i, int64[n] ids) => (y, z) "
        "{ y = MaxUnpool <kernel_shape = [2, 2]> (x, i)  z = Gather (x, ids) }"
    )
    plain = Premises(read_network(made))
    found = {one.check: one for one in verify(plain, hardened(plain))}
    assert found["audit"].said == "2 nodes with indices, 1 left, 0 others not proved"
    assert found["wild"].holds
    assert (
        found["wild"].said
        == "64 runs with wild ids, 0 failed; not wild, as a node left depends on it: i"
    )


def test_no_run_is_wild_where_each_index_is_of_a_node_that_is_left() -> None:
    made = written(
        "(float[1, 1, 2, 2] x, int64[1, 1, 2, 2] i) => (y) "
        "{ y = MaxUnpool <kernel_shape = [2, 2]> (x, i) }"
    )
    plain = Premises(read_network(made))
    found = {one.check: one for one in verify(plain, hardened(plain))}
    assert found["wild"].holds
    assert found["wild"].said == "0 runs; not wild, as a node left depends on it: i"


def test_runs_that_fail_in_an_operator_that_is_left_are_told() -> None:
    other = Left("main graph", "another", "Gather", "its indices are not limited")
    found = said(HardenedModel(EMBEDDING, left=[other]))
    assert found["wild"] == (
        True,
        "64 runs with wild ids, 0 failed, 57 more in a node left",
    )


def test_made_inputs_meet_the_contract_and_wild_ones_reach_the_ends() -> None:
    audited, random = (
        audit_model(Premises(read_network(EMBEDDING))),
        np.random.default_rng(1),
    )
    assert index_inputs(audited.network, audited.gathers.values()) == {"ids"}
    seen = set[int]()
    for _ in range(50):
        inputs = make_inputs(audited, random)
        og.check_inputs(audited.audit.contract, inputs)
        assert {*inputs["mask"].tolist()} <= {0, 1}
        seen |= {*inputs["ids"].tolist()}
    assert seen == {*range(-3, 3)}
    ends = np.iinfo(np.int64)
    wild = make_wild(np.zeros(10_000, np.int64), random)
    assert {ends.min, ends.max, -1, 0, 2**31} <= {*wild.tolist()}
    floats = make_wild(np.zeros(1000, np.float32), random)
    assert np.isnan(floats).any()
    assert np.isposinf(floats).any()


def test_a_model_without_inputs_that_can_be_made_is_one_sentence() -> None:
    texts = written("(string[n] x) => (y) { y = Identity (x) }")
    plain = Premises(read_network(texts))
    with pytest.raises(og.OnnxGatherError) as raised:
        list(verify(plain, hardened(plain)))
    rule = "the model: no array can be made for input 'x', give --inputs FILE"
    assert str(raised.value) == rule
    shapes = written(
        "(float[n] x, float[m] y) => (z) { z = Concat <axis = 0> (x, y)"
        " w = Reshape (z, s)  s = Constant <value_ints = [3, 5, 7]> () }"
    )
    plain = Premises(read_network(shapes))
    with pytest.raises(og.ProviderError) as raised:
        list(verify(plain, hardened(plain)))
    assert str(raised.value).startswith(
        "the model: the model must run with inputs that are made for it, but Reshape"
        " fails: The input tensor cannot be reshaped to the requested shape. "
    )
    assert str(raised.value).endswith("; give --inputs FILE")
