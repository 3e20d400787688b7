"""The command `audit`: what it prints, what it writes, and its exit code."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from command_line import (
    ALSO_AUDITED,
    call,
    error_of,
    json_of,
    outcome,
    output_of,
    read_bytes,
    read_json,
    read_text,
    succeed,
    write_json,
    write_text,
)
from folders import MODELS
from google.protobuf.message import EncodeError
from messages import rows_of
from onnx_graphs import constant, written
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing import audit as gathers
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.model.network import Network

built = pytest.mark.skipif(
    operators_library() is None, reason="the native kernels are not built"
)

TABLE = constant("table", np.zeros((4, 3), np.float32))
TOKENS = "[tokens] rows = Gather(table, ids)"
NODES = f"""{TOKENS} shape = Shape(ids)
[counted] count = Gather(shape, one) [fixed] row = Gather(table, first)"""
WILD = "far = Exp(x) which = Cast<to = 7>(far) "
ONE_WILD = f"(float[2] x) => (y) {{ {WILD} [wild] y = Gather(table, which) }}"
NEG = "(float[2] x) => (y) { y = Neg(x) }"


def save(text: str, path: str = "m.onnx") -> str:
    """Write a model, which may take the table of four rows; return its path."""
    Path(path).write_bytes(written(text, TABLE).SerializeToString())
    return path


def embedding(nodes: str = NODES, outputs: str = "rows") -> str:
    constants = "int64[1] one = {1}, int64[2] first = {0, 3}"
    return save(f"(int64[b, 2] ids) => ({outputs}) <{constants}> {{ {nodes} }}")


def npz(ids: Any) -> str:
    np.savez("x.npz", ids=np.array(ids))
    return "x.npz"


PROVIDERS = """\
providers     what an index out of range of Gather does:
    cpu       The node fails.
    directml  No error: returns another element of the tensor, as DirectML checks no index.
    openvino  No error: Gather returns zeros.
    webgpu    No error, as its shaders check no index: it reads another element, or beside the tensor what depends on the device.
    webnn     The index is clamped to its own axis.
"""  # noqa: E501
RUNTIME = ALSO_AUDITED + "\n"
ASSUMES = RUNTIME + "assumes       open sizes of inputs are at least 1\n"
NEGATIVE = "assumes       an index below 0 counts from the end\n"
CONTRACT = """\
next          to write the conditions to a file, and to take them as given:
    onnxgather audit m.onnx --contract m.contract.json
    onnxgather audit m.onnx --assume m.contract.json --fail-on proved-if
"""
HARDEN = """\
next          to make a model in which each index stays in range, and to try it:
    onnxgather harden m.onnx -o m.hardened.onnx --verify
"""


def given_line(conditions: str) -> str:
    """The line on what options say of the inputs."""
    return f"given         {conditions}; the contract is for such inputs alone\n"


def test_what_is_proved_under_conditions_has_them_and_shapes_are_one_line() -> None:
    assert (
        output_of(f"audit {embedding()}")
        == f"""\
m.onnx: a wrong input can leave an axis; 3 gathers: 1 proved under conditions, 2 proved in range
proved if     tokens (Gather, main graph): each value of ids is from -4 to 3
proved        fixed (Gather, main graph): constant
shapes        on the CPU, 1 gather: 1 proved in range
{ASSUMES}{NEGATIVE}{PROVIDERS}\
next          to know the sizes that are open, and whether DirectML takes the gathers:
    onnxgather audit m.onnx --shape ids=2,2
    onnxgather audit m.onnx --inputs FILE.npz
{CONTRACT}{HARDEN}"""  # noqa: E501
    )


RANGE = """\
next          to prove more, with the least and the greatest number of an input for LO and HI:
    onnxgather audit m.onnx --range x=LO:HI
"""  # noqa: E501


def wild(count: int, *more: str) -> str:
    """What is told of some gathers whose indices nothing bounds."""
    gathers = (f"[wild{k}] y{k} = Gather(table, which)" for k in range(count))
    save(f"(float[n, 2] x) => (y0) {{ {WILD} {' '.join(gathers)} }}")
    return output_of("audit m.onnx", *more)


@pytest.mark.slow
def test_gathers_that_are_not_proved_are_grouped_with_their_providers_once() -> None:
    assumes = ASSUMES.removeprefix(RUNTIME)
    # ONNX Runtime leaves out gathers of which nothing needs the output.
    assert (
        wild(167, "--levels", "none")
        == f"""\
m.onnx: perhaps a wrong input can leave an axis; 167 gathers: 167 not proved in range
not proved    167 gathers, because of x:
    wild0 (Gather, main graph) and 166 more: index unbounded; the axis has 4 elements
runtime       the file was audited by ONNX's specification alone: no level is asked for
{assumes}{PROVIDERS}\
next          to know the sizes that are open, and whether DirectML takes the gathers:
    onnxgather audit m.onnx --shape x=2,2
    onnxgather audit m.onnx --inputs FILE.npz
{RANGE}{HARDEN}"""
    )


def test_all_lists_each_gather() -> None:
    assert (
        wild(2, "--all", "--shape", "x=5,2")
        == f"""\
m.onnx: perhaps a wrong input can leave an axis; 2 gathers: 2 not proved in range
not proved    2 gathers, because of x:
    wild0 (Gather, main graph): index unbounded; the axis has 4 elements
    wild1 (Gather, main graph): index unbounded; the axis has 4 elements
{ASSUMES}{given_line("size 0 of x (n) is 5")}{PROVIDERS}{RANGE}{HARDEN}"""
    )
    assert (
        outcome(f"audit {embedding()} --all --shape ids=5,2 --range ids=0:5")[1]
        == f"""\
m.onnx: a wrong input can leave an axis; 3 gathers: 1 out of range, 2 proved in range
OUT OF RANGE  tokens (Gather, main graph): can leave its axis: the range given of ids contains 5, \
and the axis has 4 elements; in range if each value of ids is from -4 to 3
proved        counted (Gather, main graph): 1 of 2, constant
proved        fixed (Gather, main graph): 0..3 of 4, constant
{ASSUMES}{given_line("each value of ids is from 0 to 5 and size 0 of ids (b) is 5")}{PROVIDERS}{CONTRACT}{HARDEN}"""  # noqa: E501
    )


@pytest.mark.parametrize(
    ("low", "told"),
    [
        (-4, "contains -4, and an index below 0 is out of range"),
        (-5, "contains -5, and the axis has 4 elements"),
    ],
)
def test_a_given_end_below_0_is_told_if_no_index_may_be_below_0(
    low: int, told: str
) -> None:
    given = f"--range ids={low}:3 --no-negative --levels none"
    code, text, error = outcome(f"audit {embedding(TOKENS)} {given}")
    assert (code, error) == (1, "")
    start = "OUT OF RANGE  tokens (Gather, main graph): can leave its axis: the range"
    end = "in range if each value of ids is from 0 to 3"
    assert text.splitlines()[1] == f"{start} given of ids {told}; {end}"


def test_the_sizes_of_a_condition_are_told_with_their_places() -> None:
    path = save("""(float[p] a, float[s] b, float[t] data) => (y)
        <int64 zero = {0}, int64 one = {1}> {
        n = Size(a) m = Size(b) end = Add(n, m) which = Range(zero, end, one)
        y = Gather(data, which) }""")
    assert (
        "proved if     y (Gather, main graph): p + s is at most t, where p is size 0 of"
        " a, s is size 0 of b, t is size 0 of data\n" in output_of(f"audit {path}")
    )


def test_each_file_that_is_written_is_told_beside_the_audit() -> None:
    text = output_of(f"audit {embedding()}")
    # A contract that was written is not among the next commands again.
    taken = """\
next          to take the conditions that were written as given:
    onnxgather audit m.onnx --assume c.json --fail-on proved-if
"""
    assert outcome("audit m.onnx --contract c.json --html a.html") == (
        0,
        text.replace(CONTRACT, taken),
        "written: a.html\nwritten: c.json\n",
    )
    assert outcome("audit m.onnx --json --html b.html")[2] == "written: b.html\n"


def test_the_indices_of_a_run_are_told() -> None:
    np.savez("x.npz", x=np.array([[0, 1]], np.float32))
    assert (
        wild(1, "--inputs", "x.npz")
        == f"""\
m.onnx: perhaps a wrong input can leave an axis; 1 gather: 1 not proved in range
not proved    1 gather, because of x:
    wild0 (Gather, main graph): index unbounded; the axis has 4 elements; seen 1..2
run           the run reached 1 gather: each index was in range
{ASSUMES}{given_line("size 0 of x (n) is 1")}{PROVIDERS}{RANGE}{HARDEN}"""
    )


def test_names_in_what_to_add_are_quoted_for_a_shell() -> None:
    save('(int64[n] "a b") => (y) { y = Gather(table, "a b") }', "a model.onnx")
    text = output_of("audit", "a model.onnx")
    assert "    onnxgather audit 'a model.onnx' --shape 'a b=2'\n" in text


@built
def test_an_index_out_of_range_is_a_finding() -> None:
    inputs = npz(ids=[[0, 1], [2, 4]])
    code, text, _ = outcome(f"audit {embedding(TOKENS)} --inputs {inputs}")
    assert code == 1
    assert (
        text
        == f"""\
m.onnx: a wrong input can leave an axis; 1 gather: 1 out of range
OUT OF RANGE  tokens (Gather, main graph): indices[1,1] is 4, by the given inputs, on an axis of 4
    directml  No error: returns another element of the tensor, here `input[3,2]`
run           the run reached 1 gather: 1 had an index out of range
{ASSUMES}{NEGATIVE}{given_line("size 0 of ids (b) is 2")}note          with the given inputs the untouched model stops at tokens (Gather, main graph): IndicesTensor[1,1] must be in [-4, 4), got 4; what the run met behind it is under clamp
{PROVIDERS}{HARDEN}"""  # noqa: E501
    )


@built
def test_what_gathers_met_beside_the_first_index_has_a_line_each() -> None:
    nodes = f"{TOKENS} [behind] again = Gather(rows, ids)"
    path = embedding(nodes, "again")
    code, text, _ = outcome(f"audit {path} --inputs {npz(ids=[[-9, 1], [2, 4]])}")
    assert code == 1
    wrong = [line for line in text.splitlines() if "OUT OF RANGE" in line]
    run = text[text.index("run  ") : text.index("runtime  ")]
    assert wrong == [
        "OUT OF RANGE  tokens (Gather, main graph): indices[0,0] is -9, by the given"
        " inputs, on an axis of 4; 2 indices are out of range",
        "OUT OF RANGE  behind (Gather, main graph): indices[0,0] is -9, by the given"
        " inputs under clamp, on an axis of 2; 3 indices are out of range",
    ]
    assert (
        run
        == """\
run           the run reached 2 gathers: 2 had an index out of range
    tokens (Gather, main graph): met 2 indices out of range of 4, in 1 run: from -9 to 4
    behind (Gather, main graph): met 3 indices out of range of 4, in 1 run: from -9 to 4
"""
    )


@built
def test_an_index_out_of_range_that_a_given_range_denies_is_out_of_range() -> None:
    path = embedding(TOKENS)
    told = outcome(f"audit {path} --range ids=0:3 --inputs {npz(ids=[[0, 7]])}")[1]
    line = "indices[0,1] is 7, by the given inputs, on an axis of 4\n"
    assert f"OUT OF RANGE  tokens (Gather, main graph): {line}" in told


@pytest.mark.parametrize(
    ("op", "axis", "ids"),
    one_quick_in(
        6,
        [
            ("Gather", 1, [0, 2]),
            ("Gather", 2, [[1, 5], [0, 1]]),
            ("Gather", 0, -5),
            ("Gather", 1, 900),
            ("GatherElements", 1, np.eye(4, 3, dtype=np.int64)[:, None] * 4),
            ("GatherElements", 2, np.arange(24).reshape(4, 2, 3) % 8),
        ],
    ),
)
def test_the_element_that_directml_reads_is_told(op: str, axis: int, ids: Any) -> None:
    """The sentence names the element whose number the reference has in the output."""
    data, indices = np.arange(24, dtype=np.float32).reshape(4, 2, 3), np.array(ids)
    sizes = ", ".join(map(str, indices.shape))
    path = save(f"""(float[4, 2, 3] data, int64[{sizes}] ids) => (y)
        {{ y = {op}<axis = {axis}>(data, ids) }}""")
    np.savez("x.npz", data=data, ids=indices)
    found = json_of(f"audit {path} --inputs x.npz --json")["gathers"][0]
    desc, at = og.from_dict(found["descriptor"]), tuple(found["range"]["found"]["at"])
    arrays = [
        array.reshape(tensor.sizes)
        for array, tensor in ((data, desc.input_tensor), (indices, desc.indices_tensor))
    ]
    output = og.reference(desc, *arrays, out_of_range="directml")
    before = axis if op == "Gather" else 0
    read = output.reshape(found["output"]["sizes"])[(*(0,) * before, *at)].ravel()[0]
    element = ",".join(map(str, np.argwhere(data == read)[0]))
    said = (
        "    directml  No error: returns another element of the tensor, here"
        f" `input[{element}]`\n"
    )
    assert said in outcome(f"audit {path} --inputs x.npz")[1]


def test_no_element_is_told_that_directml_reads_along_a_size_of_1() -> None:
    save("(float[1, 3] data) => (y) <int64[2] i = {0, 2}> { y = Gather (data, i) }")
    text = outcome("audit m.onnx")[1]
    assert "    directml  No error: returns another element of the tensor, as" in text
    assert "here `input[" not in text


def test_a_gather_of_unknown_sizes_is_told_to_be_so_and_not_to_need_a_range() -> None:
    save("""(float[n] x, int64[2] sizes, int64[2] ids) => (y)
        { data = Reshape(x, sizes) [wild] y = Gather(data, ids) }""")
    text = output_of("audit m.onnx")
    assert (
        text.partition("assumes")[0]
        == f"""\
m.onnx: perhaps a wrong input can leave an axis; 1 gather: 1 not proved in range
not proved    1 gather; the size is unknown behind data (Reshape); `--inputs FILE.npz` may tell it:
    wild (Gather, main graph): index unbounded
{RUNTIME}"""  # noqa: E501
    )
    assert "--range" not in text


def pooled() -> str:
    """A model in which the axis of two gathers is a size that SpaceToDepth computes."""
    return save("""(float[1, 3, h, w] x) => (y, z)
        <int64[1] one = {1}, int64[2] first = {0, 3}> {
        [shrink] small = SpaceToDepth<blocksize = 2>(x)
        turned = Transpose<perm = [2, 3, 0, 1]>(small)
        [pick] y = Gather(turned, first) [other] z = Gather(turned, one) }""")


def test_the_node_that_lost_a_size_is_told_with_the_shape_that_tells_it() -> None:
    text = output_of(f"audit {pooled()}")
    assert text.startswith("""\
m.onnx: perhaps a wrong input can leave an axis; 2 gathers: 2 not proved in range
not proved    2 gathers; the size is unknown behind shrink (SpaceToDepth); `--shape x=1,3,12,12` tells it:
    pick (Gather, main graph): index 0..3
    other (Gather, main graph): index 1
""")  # noqa: E501
    told = json_of("audit m.onnx --json")["gathers"][0]["range"]
    assert told["lost"] == {
        "node": "shrink",
        "op": "SpaceToDepth",
        "told_by": "--shape x=1,3,12,12",
    }
    text = output_of("audit m.onnx --shape x=1,3,12,12")
    sentence = "an input can never leave an axis, if inputs are as given"
    assert text.startswith(f"m.onnx: {sentence}; 2 gathers: 2 proved in range\n")


def test_gathers_of_one_cause_share_a_line() -> None:
    path = pooled()
    for name in ("a.onnx", "b.onnx"):
        Path(name).write_bytes(read_bytes(path))
    text = output_of("audit a.onnx b.onnx")
    cause = (
        "the size is unknown behind shrink (SpaceToDepth);"
        " `--shape x=1,3,12,12` tells it"
    )
    for name in ("a.onnx", "b.onnx"):
        line = f"not proved    {name}: pick (Gather, main graph) and 1 more: {cause}"
        assert f"\n{line}\n" in text
    for name in ("c.onnx", "d.onnx"):
        save(ONE_WILD, name)
    text = output_of("audit a.onnx c.onnx d.onnx")
    alike = "wild (Gather, main graph) and 1 more in 2 models"
    bounds = "index unbounded; the axis has 4 elements; because of x"
    assert f"\nnot proved    c.onnx: {alike}: {bounds}\n" in text


def odd(*numbers: str) -> str:
    """A model of gathers that DirectML refuses."""
    gathers = (f"[odd{n}] some{n} = GatherElements(table, which)" for n in numbers)
    which = "int64[1, 2] which = {0, 0}"
    nodes = " ".join(gathers)
    return save(f"(int64[b, 2] ids) => (some{numbers[0]}) <{which}> {{ {nodes} }}")


def test_a_gather_that_directml_refuses_is_a_finding() -> None:
    code, text, _ = outcome(f"audit {odd('')}")
    assert code == 1
    assert (
        text
        == f"""\
m.onnx: an input can never leave an axis; \
1 gather: 1 refused by DirectML, 1 proved in range
REFUSED       odd (GatherElements, main graph): IndicesTensor.Sizes[1] must be \
InputTensor.Sizes[1] (3), as it is not at Axis, got 2
proved        odd (GatherElements, main graph): constant
{ASSUMES}"""
    )


def test_gathers_that_directml_refuses_alike_are_told_once() -> None:
    text = outcome(f"audit {odd(*'012')}")[1]
    assert text.count("REFUSED") == 1
    assert (
        "REFUSED       odd0 (GatherElements, main graph) and 2 more: IndicesTensor"
        in text
    )


def test_the_ranges_of_all_inputs_that_stop_a_proof_are_asked_for() -> None:
    save("""(float[2] w, float[2] x) => (y) { far = Exp(x) product = Mul(far, w)
        which = Cast<to = 7>(product) y = Gather(table, which) }""")
    text = output_of("audit m.onnx")
    assert "because of x, w:" in text
    assert "    onnxgather audit m.onnx --range w=LO:HI --range x=LO:HI\n" in text


@pytest.mark.parametrize(
    ("names", "conditional"),
    [("not-proved", 0), ("proved-if", 1), ("not-proved,proved-if", 1)],
)
def test_fail_on_makes_states_findings(names: str, conditional: int) -> None:
    embedding()
    save(ONE_WILD, "wild.onnx")
    codes = {"m.onnx": conditional, "m.onnx --range ids=0:3": 0, "wild.onnx": 1}
    for given, code in codes.items():
        assert call(f"audit {given} --fail-on {names}").exit_code == code
    succeed("audit wild.onnx")


def test_fail_on_comes_again_and_refuses_other_names() -> None:
    line = f"audit {embedding()} --fail-on not-proved"
    assert call(f"{line} --fail-on proved-if").exit_code == 1
    rule = "must be some of not-proved, proved-if, not-judged, got 'proved'"
    assert error_of(f"{line},proved") == f"Invalid value for '--fail-on': {rule}"


def test_the_text_says_what_the_contract_has_of_options() -> None:
    path = embedding(TOKENS)
    options = "--range ids=0:2 --contract c.json --levels none"
    text = succeed(f"audit {path} {options}")
    assert text.count(given_line("each value of ids is from 0 to 2")) == 1
    (condition,) = read_json("c.json")["conditions"]
    assert (condition["low"], condition["high"]) == (0, 2)
    # A contract that is taken as given, and sizes on which no proof rests.
    options = "--assume c.json --shape ids=3,2 --levels none"
    text = output_of(f"audit {path} {options}")
    assert given_line("each value of ids is from 0 to 2") in text
    assert "given  " not in output_of(f"audit {path} --levels none")
    # A model of any rank has the shape that is given.
    any_rank = written(f"(int64[] ids) => (rows) {{ {TOKENS} }}", TABLE)
    any_rank.graph.input[0].type.tensor_type.ClearField("shape")
    Path(path).write_bytes(any_rank.SerializeToString())
    text = output_of(f"audit {path} --shape ids=3,2 --levels none")
    assert given_line("the shape of ids is [3, 2]") in text


def test_several_models_have_what_options_say_of_them_once() -> None:
    paths = [embedding(TOKENS)]
    for number in range(10):
        paths.append(f"m{number}.onnx")
        Path(paths[-1]).write_bytes(read_bytes("m.onnx"))
    options = ("--range", "ids=0:2", "--levels", "none")
    text = output_of("audit", *paths, *options)
    told = given_line("m.onnx and 10 more models: each value of ids is from 0 to 2")
    assert (text.count("given  "), text.count(told)) == (1, 1)


def test_a_contract_is_written_and_assumed() -> None:
    path = embedding(TOKENS)
    given = "--range ids=-4:3 --contract c.json"
    succeed(f"audit {path} {given}")
    contract = read_json("c.json")
    assert contract == json_of(f"audit {path} --range ids=-4:3 --json")["contract"]
    assert call(f"audit {path} --fail-on proved-if").exit_code == 1
    succeed(f"audit {path} --fail-on proved-if --assume c.json")
    printed = outcome(f"audit {path} --assume c.json --contract -")
    assert (printed[0], json.loads(printed[1])) == (0, contract)
    og.check_inputs("c.json", {"ids": np.array([[0, 3]])})
    assert og.audit(path, assume=contract).contract == contract
    assert not og.audit(path, assume="c.json").not_proved
    assert og.harden(path, assume="c.json") == og.harden(path, ranges={"ids": (-4, 3)})
    assert (
        output_of(f"harden {path} -o o.onnx --assume c.json")
        == "m.onnx -> o.onnx: 0 nodes rewritten\n"
    )


def test_a_contract_of_given_sizes_has_the_sizes_that_a_proof_needs() -> None:
    path = embedding("shape = Shape(ids) [sized] rows = Gather(table, shape)")
    sizes = og.audit(path, shapes={"ids": [3, 2]})
    assert [gather.range.state for gather in sizes.gathers] == ["proved"]
    (condition,) = sizes.contract["conditions"]
    assert {k: v for k, v in condition.items() if v is not None} == {
        "of": "size",
        "input": "ids",
        "dim": 0,
        "expression": "b",
        "low": 3,
        "high": 3,
        "exact": False,
    }


def test_the_conditions_that_no_input_meets_beside_others_are_told() -> None:
    path = save("""
        (float[n] x) => (y, z)
        <int64 zero={0}, int64 one={1}, int64[2] pair={0, 0}, int64[1] last={3}>
        {
            count = Size (x)  all = Range (zero, count, one)
            [first] y = Gather (pair, all)  [second] z = Gather (x, last)
        }
    """)
    code, text, _ = outcome(f"audit {path} --levels none --fail-on not-proved")
    assert code == 1
    assert text.startswith(f"""\
{path}: a wrong input can leave an axis; 2 gathers: 1 not proved in range, 1 proved under conditions
not proved    1 gather, because no input meets these and the others:
    second (Gather, main graph): in range if size 0 of x (n) is at least 4
proved if     first (Gather, main graph): size 0 of x (n) is at most 2
""")  # noqa: E501
    succeed(f"audit {path} --levels none --write-baseline b.json")
    sentence = (
        "second (Gather, main graph): in range if size 0 of x (n) is at least 4;"
        " because no input meets these and the others"
    )
    assert sentence in output_of(f"audit {path} --levels none --sarif -")
    save(NEG, "n.onnx")
    text = output_of(f"audit {path} n.onnx --levels none")
    assert f"not proved    {path}: {sentence}\n" in text


@pytest.mark.parametrize("given", ["int64 k, bool s", "int64[n] ids, int64 k, bool s"])
def test_inputs_without_a_dimension_are_named_as_nobody_checks_their_shape(
    given: str,
) -> None:
    path = save(f"({given}) => (y) {{ y = Gather(table, k) }}")
    line = (
        "assumes       an input that has no dimension gets none, which ONNX Runtime"
        " does not check: k, s\n"
    )
    assert line in output_of(f"audit {path} --levels none")
    no_scalar = save("(int64[n] k) => (y) { y = Gather(table, k) }")
    assert "no dimension" not in output_of(f"audit {no_scalar} --levels none")


def test_the_digest_is_computed_only_where_somebody_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = embedding()
    succeed(f"audit {path} --levels none --contract c.json")

    computed = list[str]()
    digest = Network.digest

    def spied(network: Network) -> str:
        computed.append(network.path)
        return digest.__get__(network)

    monkeypatch.setattr(Network, "digest", property(spied))
    succeed(f"audit {path} --levels none")
    succeed(f"harden {path} --levels none -o o.onnx")
    assert computed == []
    for option in ("--json", "--contract d.py", "--assume c.json", "--html a.html"):
        succeed(f"audit {path} --levels none {option}")
        assert computed, option
        computed.clear()


def test_what_the_contract_assumes_is_told_with_allow_empty_too() -> None:
    for more, least in (((), 1), (("--allow-empty",), 0)):
        found = json_of(f"audit {embedding()}", *more, "--json")
        assumes = f"open sizes of inputs are at least {least}"
        assert (found["assumes"], found["contract"]["assumes"]) == (assumes, assumes)


def test_a_tokenizer_gives_the_range_of_ids() -> None:
    path = embedding(TOKENS)
    told: dict[str, Any] = {"model": {"vocab": {"a": 0, "b": 3}}}
    write_json("t.json", told)
    given = ("--tokenizer", "t.json", "--fail-on", "proved-if")
    succeed(f"audit {path}", *given)
    told["added_tokens"] = [{"id": 4, "content": "[PAD]"}]
    write_json("t.json", told)
    code, text, _ = outcome(f"audit {path}", *given)
    said = (
        "can leave its axis: the tokenizer of ids has ids to 4, and the axis has 4"
        " elements; in range if each value of ids is from -4 to 3"
    )
    assert code == 1
    assert f"OUT OF RANGE  tokens (Gather, main graph): {said}\n" in text
    assert outcome(f"audit {path}", *given[:2])[0] == 1
    rewritten = succeed(f"harden {path} -o o.onnx --tokenizer ids=t.json")
    assert rewritten.endswith("m.onnx -> o.onnx: 1 node rewritten\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    rows_of("""
--range ids=-4:-1 --tokenizer t.json
some input must meet all conditions, but none meets 'each value of ids is at least 0 and
at most -1' and the others

--assume none.json
none.json: no such file or directory

--assume t.json
t.json: $ must not have model

--assume t.json --contract t.json
t.json must not be written, as it is an input

--tokenizer ids=t.json --json=t.json
t.json must not be written, as it is an input

--contract a --json=a
a must not be written twice, for --json and --contract
"""),
)
def test_a_condition_that_cannot_be_is_one_sentence(
    arguments: str, sentence: str
) -> None:
    write_text("t.json", '{"model": {"vocab": {"a": 0}}}')
    assert error_of(f"audit {embedding()} {arguments}") == sentence


def test_a_model_without_gathers_is_good() -> None:
    text = output_of(f"audit {save(NEG)}")
    assert text == "m.onnx: no gather, and no other operator with indices\n"


def test_json_is_printed_or_written() -> None:
    path = embedding()
    printed = json_of(f"audit {path} --json")
    assert printed["schema"] == 3
    assert [gather["node"] for gather in printed["gathers"]] == [
        "tokens",
        "counted",
        "fixed",
    ]
    text = succeed(f"audit {path} --json=a.json")
    assert text.startswith("m.onnx: a wrong input can leave an axis; 3 gathers: ")
    assert read_json("a.json") == printed


@pytest.mark.slow
def test_several_models_have_a_table_lines_of_open_gathers_and_one_json() -> None:
    embedding()
    save(NEG, "n.onnx")
    code, text, error = outcome("audit m.onnx none.onnx n.onnx")
    assert (code, error) == (2, "Error: none.onnx: no such file or directory\n")
    assert (
        text
        == f"""\
1 of 3: a wrong input can leave an axis; 1: no index; 1 was not audited

model     operators  invalid  out of range  refused  not proved  proved if  proved
m.onnx            3        0             0        0           0          1       2
n.onnx            0        0             0        0           0          0       0
2 models          3        0             0        0           0          1       2

proved if     1 gather of 1 model: --fail-on proved-if lists the conditions
{ASSUMES}{NEGATIVE}\
next          to write the conditions to files, and to take them as given:
    onnxgather audit m.onnx none.onnx n.onnx --contract contracts
    onnxgather audit m.onnx none.onnx n.onnx --assume contracts --fail-on proved-if
next          to make models in which each index stays in range, and to try them:
    onnxgather harden m.onnx none.onnx n.onnx -o hardened --verify
next          to see what is open in a model, and what would tell more; the worst first:
    onnxgather audit m.onnx
"""
    )
    Path("two.onnx").write_bytes(read_bytes("m.onnx"))
    text = outcome("audit m.onnx two.onnx --fail-on proved-if")[1]
    said = "m.onnx: tokens (Gather, main graph) and 1 more in 2 models: each value of"
    assert text.count(f"\nproved if     {said} ids is from -4 to 3\n") == 1
    assert text.endswith(f"""\
{PROVIDERS}\
next          to write the conditions to files, and to take them as given:
    onnxgather audit m.onnx two.onnx --contract contracts
    onnxgather audit m.onnx two.onnx --assume contracts --fail-on proved-if
next          to make models in which each index stays in range, and to try them:
    onnxgather harden m.onnx two.onnx -o hardened --verify
next          to see what is open in a model, and what would tell more; the worst first:
    onnxgather audit m.onnx
""")
    code = outcome("audit m.onnx n.onnx --html a.html --jobs 2")[0]
    page = read_text("a.html")
    assert (code, "m.onnx" in page, "n.onnx" in page) == (0, True, True)
    code, text, _ = outcome("audit m.onnx none.onnx n.onnx --json")
    assert (code, json.loads(text)["unusable"]) == (2, [error[7:-1]])
    text = output_of("audit n.onnx m.onnx --all")
    no_index = "n.onnx: no gather, and no other operator with indices"
    assert (
        text.count(f"\n\n{no_index}\nm.onnx: a wrong input can leave an axis; 3 ") == 1
    )
    told = [
        {"model": path, **json_of(f"audit {path} --json")}
        for path in ("m.onnx", "n.onnx")
    ]
    code, text, _ = outcome("audit m.onnx n.onnx --json --fail-on proved-if")
    verdict = "1 of 2: a wrong input can leave an axis; 1: no index"
    record = {"schema": 3, "verdict": verdict, "models": told}
    assert (code, json.loads(text)) == (1, record)
    succeed("audit n.onnx n.onnx --fail-on proved-if")


def test_the_first_line_counts_models_that_the_given_inputs_do_not_fit() -> None:
    embedding(TOKENS)
    for name in ("n.onnx", "o.onnx"):
        save(NEG, name)
    inputs = f"--inputs {npz(ids=[[0, 1]])} --levels none"
    code, text, error = outcome(f"audit . {inputs} --html a.html")
    line = "1 of 3: a wrong input can leave an axis; 2 were not audited"
    assert (code, text.splitlines()[0]) == (2, line)
    said = "the given inputs hold 'ids', but the model's inputs are 'x'"
    errors = [f"Error: ./{name}: {said}\n" for name in ("n.onnx", "o.onnx")]
    assert error == "".join(errors) + "written: a.html\n"
    page = read_text("a.html")
    headline, rest = line.split("; ")
    assert f"<h1>{headline}</h1>" in page
    assert f'class="more">{rest}' in page


def test_inputs_are_of_one_model() -> None:
    embedding()
    for models in ("m.onnx none.onnx", "."):
        error = error_of(f"audit {models} --write-inputs c")
        assert error == "--write-inputs must be given with one model"


@pytest.mark.slow
def test_inputs_are_made_in_range() -> None:
    path = shutil.copy(MODELS / "networks" / "keywords.onnx", "m.onnx")
    succeed(f"audit {path} --write-inputs x.npz")
    content = read_bytes("x.npz")
    with np.load("x.npz") as made:
        words = made["words"]
    assert (words.dtype, words.ndim) == (np.int64, 2)
    assert (words >= -32).all()
    assert (words < 32).all()
    out = output_of(f"audit {path} --inputs x.npz")
    assert "run           the run reached 4 gathers: each index was in range\n" in out
    assert (
        error_of(f"audit {path} --inputs x.npz --write-inputs x.npz")
        == "x.npz must not be written, as it is an input"
    )
    succeed(f"audit {path} --write-inputs y.npz")
    assert read_bytes("y.npz") == content
    given = "--shape words=2,7 --range words=3:4 --write-inputs z.npz"
    succeed(f"audit {path} {given}")
    with np.load("z.npz") as made:
        assert made["words"].shape == (2, 7)
        assert set(made["words"].flat) <= {3, 4}


@pytest.mark.slow
def test_inputs_are_made_from_the_one_audit_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = shutil.copy(MODELS / "networks" / "keywords.onnx", "m.onnx")
    audited = gathers.audit_model
    inputs = list[object]()

    def spied(*given: Any) -> gathers.AuditedModel:
        inputs.append(given[1])
        return audited(*given)

    monkeypatch.setattr(gathers, "audit_model", spied)
    succeed(f"audit {path} --write-inputs x.npz")
    assert inputs == [None]
    np.savez("given.npz", words=np.zeros((3, 5), np.int64))
    given = ("--inputs", "given.npz", "--write-inputs", "y.npz")
    succeed(f"audit {path}", *given)
    assert len(inputs) == 2
    with np.load("y.npz") as made:
        assert made["words"].shape == (3, 5)
        assert made["words"].any()


def test_json_has_every_field_of_schema_3() -> None:
    path = embedding(TOKENS)
    digest = f"sha256:{hashlib.sha256(read_bytes(path)).hexdigest()}"
    code, text, _ = outcome(f"audit {path} --range ids=-4:5 --json")
    assert code == 1
    condition = {
        "of": "values",
        "input": "ids",
        "columns": None,
        "dim": None,
        "expression": None,
        "low": -4,
        "high": 3,
        "low_expression": None,
        "high_expression": None,
        "also": None,
        "exact": True,
    }
    assert json.loads(text) == {
        "schema": 3,
        "verdict": "can-leave",
        "assumes": "open sizes of inputs are at least 1",
        "not_judged": [],
        "given": ["each value of ids is from -4 to 5"],
        "contract": {
            "digest": digest,
            "assumes": "open sizes of inputs are at least 1",
            "sizes": {"b": [["ids", 0]]},
            "types": {"ids": "INT64"},
            "shapes": {"ids": [None, 2]},
            "conditions": [condition],
        },
        "gathers": [
            {
                "node": "tokens",
                "output_name": "rows",
                "place": "main graph",
                "op": "Gather",
                "shape_computation": False,
                "data": {"type": "FLOAT32", "sizes": [4, 3]},
                "indices": {"type": "INT64", "sizes": [None, 2]},
                "output": {"type": "FLOAT32", "sizes": [None, 2, 3]},
                "constant_indices": False,
                "descriptor": None,
                "refused": None,
                "feature_level": None,
                "range": {
                    "state": "out-of-range",
                    "low": [-4],
                    "high": [5],
                    "size": [4],
                    "why": "the range given of ids",
                    "sizes_from": "file",
                    "input": None,
                    "found": None,
                    "seen": None,
                    "met": None,
                    "conditions": [condition],
                    "excluded": [],
                    "lost": None,
                    "given": {
                        "source": "range",
                        "input": "ids",
                        "value": 5,
                        "index": 5,
                        "coordinate": 0,
                    },
                    "limit": None,
                    "reached": None,
                    "unfit": [],
                },
                "domain": "",
                "rewritten_at": [],
            }
        ],
        "runtime": {
            "version": onnxruntime.__version__,
            "provider": "cpu",
            "graphs": [
                {
                    "version": onnxruntime.__version__,
                    "levels": ["all"],
                    "gathers": 1,
                    "not_proved": [],
                    "refused": None,
                }
            ],
        },
        "runtime_reason": None,
        "notes": [],
        "options": ["--shape ids=2,2", "--inputs FILE.npz"],
    }


OF_AN_INPUT = "m.onnx: a {} must be of an input ('ids'), got 'no'"
NO_OUTPUT = "m.onnx must not be written, as it is an input"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--shape ids=5", "m.onnx: input 'ids' must be INT64 [?, 2], got [5]"),
        ("--shape no=5", OF_AN_INPUT.format("shape")),
        ("--range no=1:5", OF_AN_INPUT.format("range")),
        ("--inputs none.npz", "none.npz: no such file or directory"),
        ("--json=m.onnx", NO_OUTPUT),
        ("--html m.onnx", NO_OUTPUT),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments: str, said: str) -> None:
    assert error_of(f"audit {embedding()} {arguments}") == said


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\xff" * 9])
def test_a_file_that_is_no_model_is_one_sentence(content: bytes) -> None:
    Path("m.onnx").write_bytes(content)
    assert error_of("audit m.onnx").startswith("m.onnx: must be an ONNX model")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "m.onnx: there is not enough memory"),
        (
            EncodeError("Failed to serialize proto"),
            "m.onnx: there is not enough memory",
        ),
        (ImportError("a.so: failed to map\nsegment"), "a.so: failed to map segment"),
    ],
)
def test_an_error_of_the_machine_is_one_sentence(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("onnxgather.auditing.audit.audit_model", fails)
    assert error_of(f"audit {embedding()}") == said


def test_a_condition_says_what_the_indices_are_without_it() -> None:
    save("""(int64[3] ids) => (rows) <int64 low = {0}, int64 high = {5}>
        { clipped = Clip(ids, low, high) [tokens] rows = Gather(table, clipped) }""")
    line = (
        "proved if     tokens (Gather, main graph): each value of ids is at most 3 and"
        " not far below 0; other inputs may be in range too; without this the indices"
        " are 0..5 of 4"
    )
    assert line in output_of("audit m.onnx --levels none").splitlines()
