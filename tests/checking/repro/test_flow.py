"""From a case and a lane to a folder whose script shows the difference without
onnxgather."""

from __future__ import annotations

import os
import platform
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from fake_compiler import library_of
from messages import message_of
from repro_cases import CASE, GATHERS, OUTSIDE, STUB, SYSTEM, rerun
from rings import one_quick_in
from stub_runtime import environment

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, GatherNode, NodeCase
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.lane import Answer, LaneInfo
from onnxgather.checking.repro import flow
from onnxgather.checking.repro.flow import Outcome, make_repro
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.write import check_model
from onnxgather.core.programs.program import read_program

NEGATIVE = """
class InferenceSession(InferenceSession):
    def compute(self, data, indices):
        return super().compute(data, np.maximum(indices, 0))
"""


def made(
    tmp_path: Path,
    change: str,
    case: Case = CASE,
    library: pytest.MonkeyPatch | None = None,
    timeout: float = 60,
    **options: Any,
) -> Outcome:
    """Return what becomes of a case on the stand-in of ONNX Runtime, changed.

    With `library` the lane is on a shared library, and has no interpreter.
    """
    folder = tmp_path / "environment"
    folder.mkdir()
    whole = GATHERS + textwrap.dedent(change)
    if library is None:
        place = environment(folder, whole)
    else:
        place = library_of(folder, library, whole)
    (lane,) = open_lanes([], {STUB: place}, timeout=timeout)
    with closing(lane):
        return make_repro(case, lane, str(tmp_path / "out"), **options)


def said(tmp_path: Path, outcome: Outcome) -> str:
    """Return what is said of the folder and the provider."""
    start = f"{tmp_path / 'out'}: {STUB} "
    assert outcome.text.startswith(start)
    return outcome.text.removeprefix(start)


def issue_of(tmp_path: Path) -> str:
    return (tmp_path / "out" / "ISSUE.md").read_text()


def operators_of(tmp_path: Path) -> list[str]:
    """Return the operators of the model in the folder."""
    model = onnx.ModelProto.FromString((tmp_path / "out" / "model.onnx").read_bytes())
    check_model(model)
    return [node.op_type for node in model.graph.node]


WRONG = "returns wrong elements for Gather of FLOAT32 data by INT64 indices"
RULE = "IndicesTensor[0] must be in [-1, 1), got 1"
OUTPUT_FOR_ERROR = f"""\
{SYSTEM}
InputTensor: float32 [1]
    [1.]
IndicesTensor: int64 [1]
    [1]
expected: an error, as {RULE}
node Gather (Gather) runs on {STUB}
actual: float32 [1]
    [0.]
It differs: there is an output where there must be an error.
"""
ISSUE = f"""\
# {STUB} returns an output for Gather with an index out of range

## Versions

- `{STUB}`
- `python {platform.python_version()}`
- `numpy {np.__version__}`
- `onnxruntime 9.9.9`
- `{platform.system()} {platform.machine()}`

## The model

ONNX's `Gather` with `axis=0`, on data FLOAT32 [1] and indices INT64 [1]; in DirectML
`DML_OPERATOR_GATHER`. It computes `out[0] = in[idx[0]]`; in range is -1 <= idx < 1, from the end
where negative; an index out of range is an error.

InputTensor: float32 [1]

    [1.]

IndicesTensor: int64 [1]

    [1]

## Expected

An error, as:

    {RULE}

## Actual

`repro.py` prints:

{textwrap.indent(OUTPUT_FOR_ERROR, "    ")}
## How to run it

`python repro.py`, where onnxruntime and numpy are installed, runs `model.onnx` on `inputs.npz` with
{STUB} alone, by `runtime.py` beside it. Its exit code is 1 where it differs, 0 where
it does not, and 3 where the provider did not run the model.

`program.json` says the same to dxdispatch, for DirectML itself.
"""  # noqa: E501


class Faulty(msgspec.Struct, forbid_unknown_fields=True):
    """A change to the stand-in, and what becomes of it."""

    change: str
    said: str
    code: int | None = None
    """The exit code of repro.py."""
    printed: str = ""
    """The end of what repro.py prints."""
    issue: str = ""
    """A part of ISSUE.md."""


FAULTS = msgspec.toml.decode(
    """
["a failure"]
change = '''
    def compute(self, data, indices): raise RuntimeError("no kernel for 7")
'''
said = "fails in Gather of FLOAT32 data by INT64 indices; repro.py shows it"
code = 1
printed = '''
actual: StubExecutionProvider fails: no kernel for 7
It differs: there is an error and no output.
'''

["a refusal"]
change = '''
    def __init__(self, model, *more, **options):
        if b"Mul" not in model: raise ValueError("not a model for us")
        super().__init__(model, *more, **options)
'''
said = "refuses Gather of FLOAT32 data by INT64 indices; repro.py shows it"
code = 1
printed = '''
actual: StubExecutionProvider refuses the model: not a model for us
It differs: there is an error and no output.
'''

["a crash"]
change = '''
    def compute(self, data, indices):
        if data.size == 3: return data[indices]
        os.kill(os.getpid(), signal.SIGSEGV)
'''
said = "ends its process in Gather of FLOAT32 data by INT64 indices; repro.py shows it"
code = -11
issue = '''
## Actual

    the worker died of SIGSEGV and printed nothing

'''

["a script that does not show the fault"]
change = '''
    def compute(self, data, indices):
        right = super().compute(data, indices)
        return right if SCRIPT else -right
'''
said = '''
returns wrong elements for Gather of FLOAT32 data by INT64 indices; but repro.py does
not show it: it ended with exit code 0 and said: It does not differ.'''
code = 0
issue = '''
## Actual

    1 of 1 elements differ, first OutputTensor[0]: expected '''

["a script that does not end"]
change = '''
    def compute(self, data, indices):
        if SCRIPT: time.sleep(60)
        return -super().compute(data, indices)
'''
said = '''
returns wrong elements for Gather of FLOAT32 data by INT64 indices; but repro.py does
not show it: it did not end within 1 s'''

["a script that fails"]
change = '''
    def compute(self, data, indices):
        if SCRIPT: sys.exit("no licence")
        return -super().compute(data, indices)
'''
said = '''
returns wrong elements for Gather of FLOAT32 data by INT64 indices; but repro.py does
not show it: it ended with exit code 1 and said: no licence'''

["memory that nobody wrote, which differs only sometimes"]
change = '''
    runs = 0
    def compute(self, data, indices):
        self.runs += 1
        late = self.runs == 3 or not SCRIPT
        return super().compute(data, indices) * (-1 if late else 1)
'''
said = '''
returns wrong elements for Gather of FLOAT32 data by INT64 indices; repro.py shows
it'''
""",
    type=dict[str, Faulty],
)


def test_a_fault_becomes_a_folder(tmp_path: Path) -> None:
    outcome = made(tmp_path, NEGATIVE)
    folder = tmp_path / "out"
    assert said(tmp_path, outcome) == f"{WRONG}; repro.py shows it"
    assert (outcome.shown, outcome.folder) == (True, str(folder))
    assert outcome.result.state == "DIFF"
    assert {path.name for path in folder.iterdir()} == {
        *("ISSUE.md", "SHA256SUMS", "expected.npy", "inputs.npz", "model.onnx"),
        *("program.json", "repro.py", "runtime.py"),
    }
    assert outcome.case.indices.reshape(-1).tolist() == [-1]
    assert outcome.case.data.reshape(-1).tolist() == [1, 2]
    assert operators_of(tmp_path) == ["Gather"]
    # The program says the same.
    (found,) = read_program(str(folder / "program.json")).dispatched(og.reference)
    assert isinstance(outcome.case, DescriptorCase)
    assert found.descriptor == outcome.case.descriptor
    assert found.data.tobytes() == outcome.case.data.tobytes()
    assert found.output.tobytes() == np.load(folder / "expected.npy").tobytes()
    assert rerun(tmp_path) == (
        1,
        (
            f"{SYSTEM}\nInputTensor: float32 [2]\n    [1., 2.]\nIndicesTensor:"
            " int64 [1]\n    [-1]\nexpected: float32 [1]\n    [2.]\nnode Gather"
            f" (Gather) runs on {STUB}\nactual: float32 [1]\n    [1.]\nIt differs:"
            " 1 of 1 elements, first OutputTensor[0]: expected 2.0 (bytes 00 00 00"
            " 40), actual 1.0 (bytes 00 00 80 3f).\n"
        ),
    )


@pytest.mark.slow
def test_without_reducing_the_case_stays(tmp_path: Path) -> None:
    outcome = made(tmp_path, NEGATIVE, reduce=False)
    assert outcome.case is CASE
    assert outcome.shown
    with np.load(tmp_path / "out" / "inputs.npz") as inputs:
        assert inputs["InputTensor"].tobytes() == CASE.data.tobytes()
    code, printed = rerun(tmp_path)
    assert code == 1
    assert "4 of 12 elements, first OutputTensor[1,0]: expected 12.0 (" in printed


@pytest.mark.slow
def test_the_kind_of_wrong_value_stays(tmp_path: Path) -> None:
    """Of one element of data, another element would be the one at the clamped
    index."""
    outcome = made(
        tmp_path,
        "class InferenceSession(InferenceSession):\n"
        "    def compute(self, data, indices):\n"
        "        return super().compute(data, indices % data.shape[0])\n",
        OUTSIDE,
    )
    assert outcome.result.returned == "other"
    assert outcome.case.data.size == 2
    assert "returned other elements of InputTensor" in (outcome.result.reason or "")


@pytest.mark.slow
def test_an_output_in_place_of_an_error_becomes_a_folder(tmp_path: Path) -> None:
    outcome = made(
        tmp_path,
        "class InferenceSession(InferenceSession):\n"
        "    def compute(self, data, indices):\n"
        "        inside = np.clip(indices, 0, data.shape[0] - 1)\n"
        "        return super().compute(data, inside) * (indices =="
        " inside).all()\n",
        OUTSIDE,
    )
    title = "returns an output for Gather with an index out of range"
    assert said(tmp_path, outcome) == f"{title}; repro.py shows it"
    assert not (tmp_path / "out" / "expected.npy").exists()
    assert rerun(tmp_path) == (1, OUTPUT_FOR_ERROR)
    assert issue_of(tmp_path) == ISSUE


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_each_kind_is_told(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = FAULTS[fault]
    if fault == "a script that does not end":
        monkeypatch.setattr(flow, "LONGEST_RUN", 1.0)
    change = f"class InferenceSession(InferenceSession):\n{row.change}"
    outcome = made(tmp_path, change)
    assert said(tmp_path, outcome) == row.said.replace("\n", " ")
    assert outcome.shown == ("not show" not in row.said.replace("\n", " "))
    if row.code is not None:
        code, printed = rerun(tmp_path)
        assert code == row.code
        assert printed.endswith(row.printed)
    assert row.issue in issue_of(tmp_path)


def test_where_all_is_well_there_is_no_folder(tmp_path: Path) -> None:
    outcome = made(tmp_path, "")
    assert outcome.text == f"case 'rows' passes on lane {STUB}: nothing to reproduce"
    assert (outcome.result.state, outcome.folder) == ("PASS", None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("case", "helps"),
    one_quick_in(
        2,
        [
            (
                CASE,
                (
                    "; --wrap puts nodes around the gather, with"
                    " which some providers"
                    " take it"
                ),
            ),
            (CASE.wrapped_in(), ""),
        ],
    ),
)
def test_a_case_that_does_not_run_makes_no_folder(
    tmp_path: Path, case: DescriptorCase, helps: str
) -> None:
    outcome = made(tmp_path, "PLACE = 'CPUExecutionProvider'", case)
    assert outcome.result.state == "NOT-RUN"
    assert (
        outcome.text
        == f"case 'rows' did not run on lane {STUB}: {STUB} must run every node,"
        f" but Gather (Gather) runs on CPUExecutionProvider{helps}"
    )
    assert not (tmp_path / "out").exists()


def test_a_lane_that_does_not_start_makes_no_folder(tmp_path: Path) -> None:
    (lane,) = open_lanes(["openvino"], {"openvino": str(tmp_path / "python")})
    outcome = make_repro(CASE, lane, str(tmp_path / "out"))
    assert outcome.result.state == "NOT-RUN"
    assert (
        outcome.text
        == f"{tmp_path / 'python'} does not start: No such file or directory"
    )


def test_an_interpreter_that_does_not_start_is_told(tmp_path: Path) -> None:
    python = tmp_path / "environment" / "python"
    outcome = made(tmp_path, NEGATIVE, tried=lambda: python.unlink(True))
    why = f"{python} does not start: No such file or directory"
    assert outcome.text.endswith(f"; but repro.py does not show it: {why}")


def test_a_folder_of_others_is_refused_before_anything_runs(tmp_path: Path) -> None:
    tmp_path.joinpath("out").mkdir()
    tmp_path.joinpath("out", "mine").touch()
    (lane,) = open_lanes(["openvino"], {"openvino": str(tmp_path / "python")})
    assert (
        message_of(OnnxGatherError, make_repro, CASE, lane, str(tmp_path / "out"))
        == f"{tmp_path / 'out'}: the folder must be new, empty or an earlier repro,"
        " got 'mine'"
    )


@pytest.mark.slow
def test_a_wrapped_gather_stays_wrapped_if_the_fault_needs_it(tmp_path: Path) -> None:
    change = """
        class InferenceSession(InferenceSession):
            def run(self, _, feeds, options):
                wrong = "One" in feeds and len(feeds["InputTensor"]) > 1
                return [super().run(_, feeds, options)[0] * (-1 if wrong else 1)]
        """
    outcome = made(tmp_path, change, CASE.wrapped_in())
    assert outcome.case.wrapped
    assert outcome.shown
    assert operators_of(tmp_path) == ["Mul", "Gather", "Mul"]
    issue = issue_of(tmp_path).replace("\n", " ")
    assert "between two multiplications by one; in DirectML" in issue


def test_a_forbidden_node_that_is_accepted_becomes_a_folder(tmp_path: Path) -> None:
    rule = "axis must be in [-2, 2), got 2"
    node = GatherNode("Gather", {"axis": 2}, (3, 4), rule)
    case = NodeCase("bare", node, CASE.data, np.array([1, 2, 0]))
    outcome = made(tmp_path, "", case)
    title = "runs a Gather that ONNX forbids"
    assert said(tmp_path, outcome) == f"{title}; repro.py shows it"
    assert isinstance(outcome.case, NodeCase)
    assert outcome.case.node.rule == "axis must be in [-1, 1), got 1"
    assert not (tmp_path / "out" / "program.json").exists()
    issue = issue_of(tmp_path).replace("\n", " ")
    assert (
        "ONNX's `Gather` with `axis=1`, on data FLOAT32 [1] and indices INT64 []."
        " ONNX does not allow it, as:      axis must be in [-1, 1), got 1 " in issue
    )
    assert "dxdispatch" not in issue


@pytest.mark.slow
def test_a_hang_becomes_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "LONGEST_RUN", 1.0)
    change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if data.size != 3: time.sleep(60)
                return data[indices]
        """
    outcome = made(tmp_path, change, timeout=1, reduce=False)
    title = "hangs in Gather of FLOAT32 data by INT64 indices"
    assert said(tmp_path, outcome) == f"{title}; repro.py shows it"


@pytest.mark.slow
def test_an_interruption_keeps_the_smallest_case_so_far(tmp_path: Path) -> None:
    stop, calls = KeyboardInterrupt(), iter(range(5))

    def tried() -> None:
        if next(calls, None) is None:
            raise stop

    outcome = made(tmp_path, NEGATIVE, tried=tried)
    why = "interrupted: smaller cases may show it too, and repro.py was not tried"
    assert said(tmp_path, outcome) == f"{WRONG}; {why}"
    assert (outcome.stop, outcome.shown) == (stop, False)
    assert outcome.case.data.size < CASE.data.size
    assert rerun(tmp_path)[0] == 1


def test_an_interruption_without_an_interpreter_names_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried() -> None:
        raise KeyboardInterrupt

    outcome = made(tmp_path, NEGATIVE, library=monkeypatch, tried=tried)
    why = "smaller cases may show it too, and the lane was not asked again"
    assert said(tmp_path, outcome) == f"{WRONG}; interrupted: {why}"


@pytest.mark.slow
def test_an_interrupted_write_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, NEGATIVE)
    assert os.listdir(tmp_path) == ["environment"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "case", "title"),
    [
        (
            NEGATIVE,
            CASE,
            WRONG,
        ),
        (
            NEGATIVE.replace(
                "return",
                "if (indices < 0).any(): raise RuntimeError('no')\n        return",
            ),
            CASE,
            "fails in Gather of FLOAT32 data by INT64 indices",
        ),
        (
            NEGATIVE.replace(
                "return", "if (indices < 0).any(): os.abort()\n        return"
            ),
            CASE,
            "ends its process in Gather of FLOAT32 data by INT64 indices",
        ),
        (
            NEGATIVE.replace("indices, 0", "indices % len(data), 0"),
            OUTSIDE,
            "returns an output for Gather with an index out of range",
        ),
    ],
)
def test_a_lane_without_an_interpreter_is_asked_itself(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    case: Case,
    title: str,
) -> None:
    outcome = made(tmp_path, change, case, library=monkeypatch)
    assert said(tmp_path, outcome) == f"{title}; the lane shows it"
    assert (outcome.shown, outcome.folder) == (True, str(tmp_path / "out"))
    asked = "\nThe lane itself ran `model.onnx`; `repro.py` was not tried.\n"
    assert asked in issue_of(tmp_path)
    assert operators_of(tmp_path) == ["Gather"]
    assert rerun(tmp_path)[0] in (1, -6)  # in Python too


def test_a_lane_that_is_right_when_it_is_asked_again_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = f"(indices < 0).any() and not os.path.exists({str(tmp_path / 'once')!r})"
    change = NEGATIVE.replace(
        "return",
        f"if {once}:\n            open({str(tmp_path / 'once')!r}, 'w').close()\n"
        "            return super().compute(data, indices) + 1\n        return",
    ).replace("np.maximum(indices, 0)", "indices")
    outcome = made(tmp_path, change, library=monkeypatch, reduce=False)
    assert not outcome.shown
    why = "but the lane does not show it: it returned the expected output"
    assert said(tmp_path, outcome) == f"{WRONG}; {why}"


REPORTED = LaneInfo(
    STUB, STUB, {"python": "3.1", "onnxruntime": "9.9.9"}, target="portable"
)


def test_a_lane_of_a_report_runs_here_if_the_runtime_is_the_same(
    tmp_path: Path,
) -> None:
    outcome = made(tmp_path, NEGATIVE, reported=REPORTED)
    assert outcome.shown


@pytest.mark.parametrize(
    ("change", "here"),
    one_quick_in(
        2,
        [
            ("__version__ = '9.9.8'", "is onnxruntime 9.9.8"),
            (
                "PROVIDERS = ['CPUExecutionProvider']",
                (
                    f"{STUB} is not available (available: CPUExecutionProvider);"
                    f" install an ONNX Runtime with {STUB}, or name"
                    " its plugin library:"
                    f" --plugin {STUB}=LIBRARY"
                ),
            ),
        ],
    ),
)
def test_a_lane_of_a_report_needs_its_own_environment(
    tmp_path: Path, change: str, here: str
) -> None:
    outcome = made(tmp_path, change, reported=REPORTED)
    assert (outcome.result.state, outcome.folder) == ("NOT-RUN", None)
    assert (
        outcome.text
        == f"lane '{STUB}' of the report ran with 'python 3.1, onnxruntime 9.9.9',"
        f" but here {here}; give its environment: --lane NAME=PATH"
    )


def test_a_lane_without_onnx_runtime_is_refused(tmp_path: Path) -> None:
    class Lane:
        name = "directml-dll"

        def start(self) -> LaneInfo:
            return LaneInfo("directml-dll", "DirectML.dll")

        def answer(self, case: Case) -> Answer:
            raise AssertionError(case)

        def close(self) -> None:
            pass

    assert (
        message_of(OnnxGatherError, make_repro, CASE, Lane(), str(tmp_path / "out"))
        == "lane 'directml-dll' runs descriptors, not models; repro needs a"
        " provider's lane, such as directml"
    )
