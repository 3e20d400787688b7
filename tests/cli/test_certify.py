"""`onnxgather certify`: its lines, its JSON, its exit codes, its processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from command_line import (
    DESC,
    POSIX,
    SIGNED_DESC,
    outcome,
    output_of,
    program,
    read_bytes,
    read_json,
    write_json,
)
from messages import rows_of
from short_descriptors import tensor_desc

import onnxgather as og
from onnxgather.checking.corpus import random_cases
from onnxgather.core.model.values import ModelProto
from onnxgather.core.options import POLICIES, TARGETS
from onnxgather.proving import solvers

WHERE = "a.json: $.dispatchables.gather"
CLAMP = "policy clamp: an index out of range is clamped\n"
DIRECTML = "policy directml: an index out of range does what DirectML does\n"
"""The first lines, which name the policies."""
FROM_1_32 = (
    "ONNX Runtime is 1.32.0 or newer, because in older versions Min, Max and Clip of"
    " INT64 compare low halves as signed integers where the high ones are equal"
)
"""A precondition."""


def model(out_of_range: og.OutOfRange = "clamp", path: str = "m.onnx") -> str:
    Path(path).write_bytes(og.to_onnx(DESC, out_of_range).SerializeToString())
    return path


def swapped(axis: int = 1, width: int = 3, index_type: str = "UINT32") -> og.GatherDesc:
    """Two columns or rows of four rows."""
    return og.GatherDesc(
        tensor_desc(f"FLOAT32 4x{width}"),
        tensor_desc(f"{index_type} 1x2"),
        og.TensorDesc("FLOAT32", [4, 2] if axis else [2, width]),
        axis=axis,
        index_dimensions=1,
    )


def test_two_gathers_whose_long_names_begin_alike_are_both_certified() -> None:
    content = read_json(program("a.json"))
    other = read_json(
        program("b.json", SIGNED_DESC, indices=np.array([[2, 0]], np.int64))
    )
    long = "n" * 300
    content["dispatchables"][f"{long}1"] = other["dispatchables"]["gather"]
    swapped_rows = read_json(program("c.json", swapped(axis=0)))
    content["dispatchables"][f"{long}2"] = swapped_rows["dispatchables"]["gather"]
    write_json("a.json", content)
    assert output_of("certify a.json").endswith("3 proved, 0 refuted, 0 undecided\n")


def test_a_program_is_certified_under_each_rule_for_each_target() -> None:
    told = outcome(
        *("certify", program("a.json"), program("b/a.json"), "--out-of-range", "error"),
        *("--out-of-range", "directml", "--out-of-range", "error"),
        *("--target", "portable", "--target", "cpu"),
    )
    assert told == (
        0,
        f"""\
policy error: an index out of range is an error
{DIRECTML}{WHERE}: error, portable: proved
{WHERE}: error, cpu: proved
{WHERE}: directml, portable: proved
{WHERE}: directml, cpu: proved
4 proved, 0 refuted, 0 undecided
""",
        (
            "not proved again, as an equal descriptor is proved: b/a.json:"
            " $.dispatchables.gather\n"
        ),
    )


def test_a_model_of_others_is_a_finding_where_it_is_refuted() -> None:
    program("a.json")
    given = ("certify", "a.json", "--model", model("zero"), "--out-of-range")
    assert output_of(*given, "zero") == (
        "policy zero: an index out of range gives 0\n"
        f"{WHERE}: zero, m.onnx: proved\n1 proved, 0 refuted, 0 undecided\n"
    )
    code, text, error = outcome(*given, "clamp")
    _, first, last = text.splitlines()
    assert (code, error, last) == (1, "", "0 proved, 1 refuted, 0 undecided")
    assert first.startswith(f"{WHERE}: clamp, m.onnx: refuted")


def test_an_undecided_one_is_a_finding_if_asked() -> None:
    program("a.json")
    made = og.to_onnx(DESC)
    made.graph.node[0].op_type = "Clap"
    Path("m.onnx").write_bytes(made.SerializeToString())
    told = (
        f"{CLAMP}{WHERE}: clamp, m.onnx: undecided: the operator Clap\n0 proved, 0"
        " refuted, 1 undecided\n"
    )
    given = "certify a.json --model m.onnx --out-of-range clamp"
    changed = (
        "m.onnx: its metadata of onnxgather are of another graph, so it is read as any"
        " ONNX model\n"
    )
    assert outcome(given) == (0, told, changed)
    assert outcome(f"{given} --fail-on undecided") == (1, told, changed)


def test_json_has_all_but_the_text_of_obligations() -> None:
    program("a.json")
    code, text, error = outcome("certify a.json bad.json --json")
    (one,) = (found := json.loads(text))["certificates"]
    assert (code, error) == (2, "Error: bad.json: no such file or directory\n")
    own = og.certify(DESC)
    assert (one.pop("statement"), one.pop("digest")) == (own.statement, own.digest)
    assert found == {
        "schema": 1,
        "certificates": [
            {
                "name": WHERE,
                "descriptor": og.to_dict(DESC),
                "out_of_range": "clamp",
                "target": "portable",
                "model": None,
                "state": "proved",
                "preconditions": [],
                "why": "",
                "obligations": len(own.obligations),
                "lemmas": [],
                "counterexample": None,
                "schema": 1,
            }
        ],
        "unusable": ["bad.json: no such file or directory"],
    }
    assert outcome("certify a.json --json=out.json") == (
        0,
        (
            f"{CLAMP}{WHERE}: clamp, portable: proved\n1 proved, 0 refuted, 0"
            " undecided\n"
        ),
        "written: out.json\n",
    )
    assert read_json("out.json")["certificates"][0]["state"] == "proved"


def test_a_gather_of_a_model_fails_at_an_index_out_of_range() -> None:
    """As in check and show."""
    made = ModelProto.FromString(read_bytes(model()))
    del made.metadata_props[:]
    Path("m.onnx").write_bytes(made.SerializeToString())
    assert output_of("certify m.onnx") == (
        "policy error: an index out of range is an error\n"
        "m.onnx: node 'OutputTensor': error, portable: proved\n"
        "1 proved, 0 refuted, 0 undecided\n"
    )


def test_a_line_says_the_preconditions() -> None:
    given = ("--out-of-range", "error", "--target", "webgpu")
    line = output_of("certify", program("a.json"), *given).splitlines()[1]
    told = (
        f"{WHERE}: error, webgpu: proved, if each index is from -2,147,483,648 to"
        " 2,147,483,583, so"
    )
    assert line.startswith(told)


def test_a_model_of_one_gather_is_proved_against_itself() -> None:
    """Its descriptor has leading ones, which its indices and its output lack."""
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        g (float[2, 3] d, int64[1, 2] i) => (float[1] y) { y = GatherND(d, i) }""")
    Path("m.onnx").write_bytes(model.SerializeToString())
    assert output_of("certify m.onnx --model m.onnx") == (
        "policy error: an index out of range is an error\n"
        "m.onnx: node 'y': error, m.onnx: proved\n"
        "1 proved, 0 refuted, 0 undecided\n"
    )


def test_a_line_and_json_say_from_which_version_a_model_is_proved() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        g (float[5] d, int64[3] i) => (float[3] y)
        <int64 low = {-5}, int64 high = {4}> { near = Clip(i, low, high)
        y = Gather(d, near) }""")
    Path("m.onnx").write_bytes(model.SerializeToString())
    given = ("certify", "m.onnx", "--model", "m.onnx", "--out-of-range", "clamp")
    line = output_of(*given).splitlines()[1]
    assert line == f"m.onnx: node 'y': clamp, m.onnx: proved, if {FROM_1_32}"
    (row,) = json.loads(output_of(*given, "--json"))["certificates"]
    assert row["preconditions"] == [FROM_1_32]


def random_programs(count: int) -> str:
    """Return a folder with programs of random descriptors."""
    for number, case in enumerate(random_cases(count, seed=3)):
        program(f"random/{number:02}.json", case.descriptor, case.data, case.indices)
    return "random"


@pytest.mark.slow
def test_two_jobs_give_what_one_gives() -> None:
    given = (
        "certify",
        random_programs(12),
        "--out-of-range",
        "zero",
        "--json",
    )
    one = outcome(*given)
    assert one[0] == 0
    assert len(json.loads(one[1])["certificates"]) == 12
    # slow work tells its progress besides
    assert outcome(*given, "--jobs", "2")[:2] == one[:2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *rows_of("""
a.json b.json --model m.onnx
Error: --model must come with one descriptor and one pair of rule and target, got 2 and
1

a.json --model m.onnx --target cpu --target portable
Error: --model must come with one descriptor and one pair of rule and target, got 1 and
2

a.json --target cpu,native
Error: Invalid value for '--target': 'cpu,native' is not one of 'portable', 'cpu',
'webgpu', 'native', 'webnn'.

a.json --timeout 0
Error: Invalid value for '--timeout': 0.0 is not in the range 0<x<=86400.

a.json --timeout 86401
Error: Invalid value for '--timeout': 86401.0 is not in the range 0<x<=86400.

a.json --json=a.json
Error: a.json must not be written, as it is an input
"""),
        ("", "Error: Missing argument 'FILE...'."),
    ],
)
def test_wrong_usage_is_a_sentence(arguments: str, said: str) -> None:
    program("a.json")
    program("b.json", swapped(width=5), np.zeros((4, 5), np.float32))
    code, text, error = outcome(f"certify {arguments}")
    assert (code, text, error.splitlines()[-1]) == (2, "", said)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            og.to_onnx(DESC, indices=np.array([[0, 1]], np.uint32)),
            "the model must have 2 inputs, or have names of to_onnx, got InputTensor",
        ),
        (
            og.to_onnx(swapped(width=5)),
            "'InputTensor' of the model must be FLOAT [4, 3], got FLOAT [4, 5]",
        ),
        (
            og.to_onnx(swapped(index_type="INT64")),
            "'IndicesTensor' of the model must be UINT32 [1, 2], got INT64 [1, 2]",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_unusable(made: ModelProto, said: str) -> None:
    Path("m.onnx").write_bytes(made.SerializeToString())
    told = outcome("certify", program("a.json"), "--model", "m.onnx")
    assert told == (2, "", f"Error: {WHERE}: {said}\n")
    with pytest.raises(og.OnnxGatherError, match=re.escape(said)):
        og.certify(DESC, model=made)


def test_a_solver_is_needed_only_where_the_normal_form_does_not_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("z3", "cvc5"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(solvers, "_proved", set[object]())  # what others have proved
    program("a.json")
    program("b.json", SIGNED_DESC, indices=np.array([[0, 1]]))
    why = "a proof needs z3 or cvc5, which are not installed: pip install z3-solver"
    told = (
        f"{CLAMP}{WHERE}: clamp, portable: proved\n"
        f"b.json: $.dispatchables.gather: clamp, portable: undecided: {why}\n"
        "1 proved, 0 refuted, 1 undecided\n"
    )
    assert output_of("certify a.json b.json") == told
    assert outcome("certify a.json b.json --fail-on undecided") == (1, told, "")
    assert og.certify(DESC).state == "proved"
    undecided = og.certify(SIGNED_DESC)
    assert (undecided.state, undecided.why) == ("undecided", why)


class TestFromPython:
    def test_a_result_is_short_and_says_what_is_proved(self) -> None:
        found = og.certify(DESC, "error")
        assert repr(found) == "<Certified proved>"
        assert (
            found.statement
            == "for any data and every value of every index, each element of"
            " OutputTensor is the element of InputTensor that DirectML's formula of"
            " GATHER names, and an index out of range is an error"
        )

    def test_our_own_models_need_no_version(self) -> None:
        for low_halves in (False, True):
            assert str(og.certify(DESC, low_halves=low_halves)) == "proved"

    def test_inputs_are_found_by_their_names(self) -> None:
        prefixed = og.to_onnx(DESC, prefix="a_")
        inputs = [*prefixed.graph.input]
        del prefixed.graph.input[:]
        prefixed.graph.input.extend(reversed(inputs))
        assert og.certify(DESC, model=prefixed).state == "proved"
        names = {"InputTensor": "x", "IndicesTensor": "i", "OutputTensor": "y"}
        assert og.certify(DESC, model=og.to_onnx(DESC, names=names)).state == "proved"

    def test_an_output_of_another_shape_is_refuted(self) -> None:
        assert og.certify(DESC, model=og.to_onnx(swapped(axis=0))).state == "refuted"

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"model": 3}, "model must be a file, or an onnx.ModelProto, got 3"),
            ({"model": "no.onnx"}, "no.onnx: no such file or directory"),
            (
                {"out_of_range": "zeros"},
                (
                    "out_of_range must be one of clamp, error, zero, directml, got"
                    " 'zeros'; did you mean \"zero\"?"
                ),
            ),
            (
                {"target": "portabel"},
                (
                    "target must be one of portable, cpu, webgpu, native, webnn, got"
                    " 'portabel'; did you mean \"portable\"?"
                ),
            ),
        ],
    )
    def test_wrong_options_are_sentences(
        self, options: dict[str, object], said: str
    ) -> None:
        with pytest.raises(og.OnnxGatherError) as caught:
            og.certify(DESC, **options)  # pyright: ignore[reportArgumentType]
        assert str(caught.value) == said


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_writes_what_there_is(jobs: int) -> None:
    for width in range(3, 203):
        data = np.zeros((4, width), np.float32)
        program(f"many/{width}.json", swapped(width=width), data)
    for seconds in (4, 12, 90):  # a slow machine has certified nothing after 4 seconds
        if interrupted(jobs, seconds):
            return
    pytest.fail("nothing was certified in 90 seconds")


def interrupted(jobs: int, seconds: float) -> bool:
    """Whether descriptors were certified before an interruption; then they are in the
    file."""
    command = [sys.executable, "-m", "onnxgather", "certify", "many"]
    command += [f"--out-of-range={policy}" for policy in POLICIES]
    command += [f"--target={target}" for target in TARGETS]
    # A shell starts what runs behind it without SIGINT, and programs inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [*command, "--jobs", str(jobs), "--json=out.json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            time.sleep(seconds)
            # as a terminal sends it to all processes
            os.killpg(process.pid, signal.SIGINT)
            told = process.stdout.read().splitlines()
            error = process.stderr.read()
        finally:
            process.kill()
    assert process.returncode == 130
    if len(told) < 2:
        return False
    said = re.fullmatch(
        r"(?s).*Error: (interrupted by SIGINT after ([\d,]+) of [\d,]+ descriptors)\n"
        r"written: out.json\n",
        error,
    )
    assert said is not None, error
    found = read_json("out.json")
    assert found["unusable"] == [said[1]]
    certified = [line for line in told[:-1] if not line.startswith("policy ")]
    assert len(found["certificates"]) == len(certified)
    assert len(certified) == int(said[2].replace(",", ""))
    assert re.fullmatch(r"[\d,]+ proved, 0 refuted, \d+ undecided", told[-1])
    return True
