"""A hardened model shares its large constants with the model that it is made of."""

from __future__ import annotations

import onnx
import pytest
from exported_networks import EACH, NETWORKS
from onnx import parser
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.audit import Premises
from onnxgather.auditing.hardening.harden import hardened
from onnxgather.auditing.hardening.verify import verify
from onnxgather.auditing.levels import Levels
from onnxgather.core.model import wire
from onnxgather.core.model.network import read_network
from onnxgather.core.model.wire import whole_tensor


@pytest.mark.parametrize("name", one_quick_in(10, EACH))
def test_a_network_is_hardened_the_same_with_shared_constants(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    network, _ = NETWORKS[name]
    content = network.SerializeToString(deterministic=True)
    premises = Premises(read_network(network), levels=Levels(()))
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", 2**40)
    expected = hardened(premises)
    assert expected.weights == {}
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", -1)
    shared = hardened(premises)
    assert shared.content == expected.content
    assert shared.left == expected.left
    assert network.SerializeToString(deterministic=True) == content
    raw = {tensor.name for tensor in network.graph.initializer if tensor.raw_data}
    left_out = {whole_tensor(weight).name for weight in shared.weights.values()}
    assert raw <= left_out


@pytest.fixture
def embedding() -> onnx.ModelProto:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (int64[n] ids) => (y, z) "
        "{ y = Gather (table, ids)  z = Gather (table, fixed) }"
    )
    table = onnx.helper.make_tensor(
        "table", onnx.TensorProto.FLOAT, [100], bytes(400), raw=True
    )
    fixed = onnx.helper.make_tensor(
        "fixed", onnx.TensorProto.INT64, [2], bytes(16), raw=True
    )
    model.graph.initializer.extend([table, fixed])
    return model


def test_a_model_of_the_caller_stays_and_the_new_one_is_whole(
    monkeypatch: pytest.MonkeyPatch, embedding: onnx.ModelProto
) -> None:
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", 0)
    content = embedding.SerializeToString()
    new = og.harden(embedding, levels=[])
    assert embedding.SerializeToString() == content
    assert [*new.graph.initializer] == [*embedding.graph.initializer]
    new.graph.initializer[0].raw_data = b""
    assert embedding.SerializeToString() == content


def test_constants_that_are_shared_decide_proofs_and_runs(
    monkeypatch: pytest.MonkeyPatch, embedding: onnx.ModelProto
) -> None:
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", 0)
    premises = Premises(read_network(embedding))
    done = hardened(premises)
    left_out = [whole_tensor(weight).name for weight in done.weights.values()]
    assert left_out == ["table", "fixed"]
    # The indices of the second Gather are a constant, so it is proved and stays.
    assert [node.node for node in done.rewritten] == ["y"]
    checks = [*verify(premises, done)]
    assert [check.check for check in checks if not check.holds] == []
