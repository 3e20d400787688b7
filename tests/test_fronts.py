"""The fronts of the commands in Python, and what notebooks show of what they return."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SIGNED_DESC as DESC
from command_line import outcome
from folders import MODELS
from messages import message_of
from onnx import parser
from planted_adapter import planted
from short_descriptors import descriptor

import onnxgather as og

KEYWORDS = MODELS / "networks" / "keywords.onnx"


def html_of(shown: Any) -> str:
    """What a notebook shows."""
    return shown._repr_html_()


def test_a_descriptor_is_shown_as_the_command_shows_it() -> None:
    shown = og.show(DESC, "zero", target="cpu", opset=21)
    assert repr(shown) == "<Description of DML_OPERATOR_GATHER>"
    assert "\nONNX, opset 21, target cpu, out of range: zero\n" in str(shown)
    text = og.show(og.from_onnx("Gather", ("FLOAT32", [4]), ("INT64", [2])))
    assert "-4 &lt;= idx &lt; 4" in html_of(text)
    program = str(MODELS / "token_embedding.json")
    printed = outcome("show", program)[1]
    desc = descriptor("GATHER: FLOAT16 1x6x4, INT64 1x2x3, FLOAT16 2x3x4, 1, 2")
    assert printed == f"{program}: $.dispatchables.gather\n\n{og.show(desc)}\n"


@pytest.mark.parametrize("opset", [12, 26, 17.0])
def test_an_opset_that_there_is_not_is_refused(opset: Any) -> None:
    assert (
        message_of(og.OnnxGatherError, og.show, DESC, opset=opset)
        == f"opset must be an integer from 13 to 25, got {opset}"
    )


def test_an_element_is_explained() -> None:
    data, indices = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([[2, -3]])
    found = og.explain(DESC, data, indices, (1, 0))
    assert str(found) == "output[1,0] = input[1, indices[0]] = input[1, 2] = 5"


def test_a_gather_is_checked_on_lanes() -> None:
    data, indices = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([[2, 7]])
    passed, absent = og.check(
        DESC, data, indices, lanes=["cpu", "XyzExecutionProvider"]
    )
    assert (passed.lane, passed.state) == ("cpu", "PASS")
    assert (absent.lane, absent.state) == ("XyzExecutionProvider", "NOT-RUN")
    assert (absent.reason or "").startswith("XyzExecutionProvider is not available")
    assert len(repr(passed)) < 200
    (refused,) = og.check(DESC, data, indices, "error", target="portable")
    assert (refused.state, refused.kind) == ("PASS", "refused")


@pytest.mark.parametrize(
    ("lanes", "target", "said"),
    [
        (5, None, "lanes must be a sequence, got 5"),
        ("", None, "lanes must name one beside the reference, got none"),
        ("cpu,cpu", None, "lanes must differ, got 'cpu' twice"),
        ("cpu=", None, "a lane must be NAME or NAME=PATH, got 'cpu='"),
        (["cpu=no/python"], None, "lanes: 'no/python': no such file or directory"),
        (
            [f"cpu={sys.prefix}"],
            None,
            (
                "lanes: must be the interpreter of an environment, got its folder"
                f" {sys.prefix!r}"
            ),
        ),
        ([5], None, "lanes[0] must be a text in UTF-8, got 5"),
        ([], None, "lanes must name one beside the reference, got none"),
        (
            ["cpu"],
            "gpu",
            "target must be one of portable, cpu, webgpu, native, got 'gpu'",
        ),
    ],
)
def test_lanes_that_there_are_not_are_refused(
    lanes: Any, target: Any, said: str
) -> None:
    data, indices = np.zeros((4, 3), np.float32), np.zeros((1, 2), np.int64)
    assert (
        message_of(
            og.OnnxGatherError,
            og.check,
            DESC,
            data,
            indices,
            lanes=lanes,
            target=target,
        )
        == said
    )


@pytest.mark.parametrize(
    ("lanes", "names"),
    [
        ("cpu", ["cpu"]),
        (" cpu, cpu@native ,", ["cpu", "cpu@native"]),
        (f"cpu,cpu@b={sys.executable}", ["cpu", "cpu@b"]),
        ([f"cpu@b={sys.executable}", "reference", "cpu"], ["cpu@b", "cpu"]),
    ],
)
def test_lanes_have_the_forms_of_the_command_line(lanes: Any, names: list[str]) -> None:
    data, indices = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([[2, 7]])
    results = og.check(DESC, data, indices, lanes=lanes)
    assert [(result.lane, result.state) for result in results] == [
        (name, "PASS") for name in names
    ]


def test_an_adapter_and_a_plugin_are_lanes(tmp_path: Path) -> None:
    desc = og.from_onnx("Gather", ("FLOAT32", [4, 3]), ("INT64", [2]))
    change = """
    def gather(data, indices):
        return np.zeros((2, 3), np.float32)
    """
    path = planted(tmp_path, change)
    arrays = (np.ones((4, 3), np.float32), [1, 2])
    for adapter in (path, Path(path)):
        (result,) = og.check(desc, *arrays, adapters={"mine": adapter})
        assert (result.lane, result.state) == ("mine", "DIFF")
    plugin = {"MyExecutionProvider": path}
    first, second = og.check(desc, *arrays, lanes="cpu", plugins=plugin)
    assert (first.lane, first.state) == ("cpu", "PASS")
    assert (second.lane, second.state) == ("MyExecutionProvider", "NOT-RUN")
    assert (second.reason or "").startswith(
        "the plugin library of MyExecutionProvider does not load: "
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"adapters": {"mine": "no.py"}},
            "adapters: 'no.py': no such file or directory",
        ),
        (
            {"plugins": {"MyExecutionProvider": "no.so"}},
            "plugins: 'no.so': no such file or directory",
        ),
        ({"plugins": ["no.so"]}, "plugins must be a mapping from names, got ['no.so']"),
        (
            {"provider_options": {"cpu": "a=b"}},
            "provider_options['cpu'] must be a mapping from names, got 'a=b'",
        ),
        (
            {"provider_options": {"cpu": {"a": 1}}},
            "provider_options['cpu']['a'] must be a text in UTF-8, got 1",
        ),
        (
            {"provider_options": {"gpu": {"a": "b"}}},
            "the lane of an option of a provider must be one of cpu, got 'gpu'",
        ),
        ({"adapters": {"a": 5}}, "adapters['a'] must be a text in UTF-8, got 5"),
    ],
)
def test_a_path_or_an_option_that_is_none_is_refused(given: Any, said: str) -> None:
    data, indices = np.zeros((4, 3), np.float32), np.zeros((1, 2), np.int64)
    assert (
        message_of(og.OnnxGatherError, og.check, DESC, data, indices, **given) == said
    )


def test_gathers_are_taken_out_of_a_model(tmp_path: Path) -> None:
    with np.load(KEYWORDS.with_suffix(".npz")) as inputs:
        done = og.extract(KEYWORDS, dict(inputs), tmp_path / "gathers", node="length")
    (one,) = done
    assert (one.node, one.folder) == ("length", "gathers/001_length")
    assert (tmp_path / "gathers" / "gathers" / "001_length" / "program.json").exists()


@pytest.mark.parametrize(
    ("path", "folder", "node", "said"),
    [
        (None, "out", None, "path must be a path, got None"),
        (KEYWORDS, 5, None, "folder must be a path, got 5"),
        (KEYWORDS, "\0", None, "\\x00: embedded null byte"),
        (KEYWORDS, "out", 5, "node must be the name of a node, got 5"),
    ],
)
def test_what_is_no_path_and_no_name_is_refused(
    path: Any, folder: Any, node: Any, said: str
) -> None:
    assert message_of(og.OnnxGatherError, og.extract, path, {}, folder, node) == said


def test_a_notebook_shows_tables() -> None:
    assert (
        html_of(DESC) == "<table><caption>GatherDesc</caption>"
        "<tr><th>input_tensor</th><td>TensorDesc(&#x27;FLOAT32&#x27;, (4, 3))</td></tr>"
        "<tr><th>indices_tensor</th><td>TensorDesc(&#x27;INT64&#x27;, (1, 2))</td></tr>"
        "<tr><th>output_tensor</th><td>TensorDesc(&#x27;FLOAT32&#x27;, (4,"
        " 2))</td></tr>"
        "<tr><th>axis</th><td>1</td></tr><tr><th>index_dimensions</th><td>1</td></tr></table>"
    )
    audit = og.audit(str(KEYWORDS))
    assert repr(audit) == "<Audit of 4 gathers: 2 proved, 2 proved-if>"
    assert html_of(audit).startswith(
        "<table><caption>Audit of 4 gathers: 2 proved, 2 proved-if</caption>"
        "<tr><th>length</th><td>Gather, main graph: proved</td></tr>"
    )
    assert repr(og.audit(og.to_onnx(DESC))).startswith("<Audit of 1 gather: 1 proved")


def test_what_is_prepared_to_run_is_told_in_short() -> None:
    assert (
        repr(og.Gather(DESC))
        == "<Gather of GatherDesc: FLOAT32 [4, 3] by INT64 [1, 2], clamp>"
    )
    assert (
        repr(og.Gather(DESC, "zero", np.zeros((1, 2), np.int64)))
        == "<Gather of GatherDesc: FLOAT32 [4, 3] by INT64 [1, 2] that are known, zero>"
    )
    told = (
        "InputTensor FLOAT [4, 3], IndicesTensor INT64 [1, 2] -> OutputTensor FLOAT"
        " [4, 2]"
    )
    with og.Session(DESC) as session:
        assert repr(session) == f"<Session on CPUExecutionProvider: {told}>"
    assert repr(session) == f"<Session on CPUExecutionProvider, closed: {told}>"
    inputs = ", ".join(f"float[n] x{k}" for k in range(9))
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[n] y) {{ y ='
        " Neg (x8) }"
    )
    told = (
        "x0 FLOAT [?], x1 FLOAT [?], x2 FLOAT [?], x3 FLOAT [?] and 5 more -> y"
        " FLOAT [?]"
    )
    session = og.Session(parser.parse_model(text))
    assert repr(session) == f"<Session on CPUExecutionProvider: {told}>"


def test_a_name_of_a_node_is_text_in_a_notebook() -> None:
    model = og.to_onnx(DESC, "error")
    for node in model.graph.node:
        node.name = f"<script>{node.output[0]}\x1b"
    shown = html_of(og.audit(model))
    assert "<th>&lt;script&gt;OutputTensor\\x1b</th>" in shown
    assert "<script>" not in shown


def test_a_notebook_shows_a_certificate() -> None:
    pytest.importorskip("z3", reason="the extra proof is not installed")
    certified = og.certify(DESC)
    shown = html_of(certified)
    assert shown.startswith(
        f"<table><caption>{certified}</caption><tr><th>statement</th><td>for any"
    )
    assert f"<tr><th>digest</th><td>{certified.digest}</td></tr>" in shown
