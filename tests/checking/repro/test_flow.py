"""From a case and a lane to a folder whose script shows the difference without
onnxgather."""

from __future__ import annotations

import os
import platform
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fake_compiler import library_of
from messages import message_of
from repro_cases import CASE, GATHERS, OUTSIDE, STUB, SYSTEM, rerun
from rings import one_quick_in
from stub_runtime import environment

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
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


def made(tmp_path: Path, change: str, case: Case = CASE, **options: Any) -> Outcome:
    """Return what becomes of a case on the stand-in of ONNX Runtime, changed."""
    tmp_path.joinpath("environment").mkdir()
    python = environment(tmp_path / "environment", GATHERS + textwrap.dedent(change))
    (lane,) = open_lanes([STUB], {STUB: python})
    with closing(lane):
        return make_repro(case, lane, str(tmp_path / "out"), **options)


class TestTheFlow:
    def test_a_fault_becomes_a_folder(self, tmp_path: Path) -> None:
        outcome = made(tmp_path, NEGATIVE)
        folder = tmp_path / "out"
        assert (
            outcome.text
            == f"{folder}: {STUB} returns wrong elements for Gather of FLOAT32 data by"
            " INT64 indices; repro.py shows it"
        )
        assert (outcome.shown, outcome.folder) == (True, str(folder))
        assert outcome.result.state == "DIFF"
        assert sorted(os.listdir(folder)) == [
            "ISSUE.md",
            "SHA256SUMS",
            "expected.npy",
            "inputs.npz",
            "model.onnx",
            "program.json",
            "repro.py",
            "runtime.py",
        ]
        assert outcome.case.indices.reshape(-1).tolist() == [-1]
        assert outcome.case.data.reshape(-1).tolist() == [1, 2]
        model = onnx.ModelProto.FromString((folder / "model.onnx").read_bytes())
        check_model(model)
        assert [node.op_type for node in model.graph.node] == ["Gather"]
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
    def test_without_reducing_the_case_stays(self, tmp_path: Path) -> None:
        outcome = made(tmp_path, NEGATIVE, reduce=False)
        assert outcome.case is CASE
        assert outcome.shown
        with np.load(tmp_path / "out" / "inputs.npz") as inputs:
            assert inputs["InputTensor"].tobytes() == CASE.data.tobytes()
        code, printed = rerun(tmp_path)
        assert code == 1
        assert "4 of 12 elements, first OutputTensor[1,0]: expected 12.0 (" in printed

    @pytest.mark.slow
    def test_the_kind_of_wrong_value_stays(self, tmp_path: Path) -> None:
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
    def test_an_output_in_place_of_an_error_becomes_a_folder(
        self, tmp_path: Path
    ) -> None:
        outcome = made(
            tmp_path,
            "class InferenceSession(InferenceSession):\n"
            "    def compute(self, data, indices):\n"
            "        inside = np.clip(indices, 0, data.shape[0] - 1)\n"
            "        return super().compute(data, inside) * (indices =="
            " inside).all()\n",
            OUTSIDE,
        )
        title = f"{STUB} returns an output for Gather with an index out of range"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        assert not (tmp_path / "out" / "expected.npy").exists()
        rule = "IndicesTensor[0] must be in [-1, 1), got 1"
        assert rerun(tmp_path) == (
            1,
            (
                f"{SYSTEM}\n"
                "InputTensor: float32 [1]\n    [1.]\n"
                "IndicesTensor: int64 [1]\n    [1]\n"
                f"expected: an error, as {rule}\n"
                f"node Gather (Gather) runs on {STUB}\n"
                "actual: float32 [1]\n    [0.]\n"
                "It differs: there is an output where there must be an error.\n"
            ),
        )
        assert (tmp_path / "out" / "ISSUE.md").read_text() == (
            f"# {title}\n"
            "\n"
            "## Versions\n"
            "\n"
            f"- `{STUB}`\n"
            f"- `python {platform.python_version()}`\n"
            f"- `numpy {np.__version__}`\n"
            "- `onnxruntime 9.9.9`\n"
            f"- `{platform.system()} {platform.machine()}`\n"
            "\n"
            "## The model\n"
            "\n"
            "ONNX's `Gather` with `axis=0`, on data FLOAT32 [1] and indices "
            "INT64 [1]; in DirectML\n"
            "`DML_OPERATOR_GATHER`. It computes `out[0] = in[idx[0]]`; in "
            "range is -1 <= idx < 1, from the end\n"
            "where negative; an index out of range is an error.\n"
            "\n"
            "InputTensor: float32 [1]\n"
            "\n"
            "    [1.]\n"
            "\n"
            "IndicesTensor: int64 [1]\n"
            "\n"
            "    [1]\n"
            "\n"
            "## Expected\n"
            "\n"
            "An error, as:\n"
            "\n"
            f"    {rule}\n"
            "\n"
            "## Actual\n"
            "\n"
            "`repro.py` prints:\n"
            "\n"
            f"    {SYSTEM}\n"
            "    InputTensor: float32 [1]\n"
            "        [1.]\n"
            "    IndicesTensor: int64 [1]\n"
            "        [1]\n"
            f"    expected: an error, as {rule}\n"
            f"    node Gather (Gather) runs on {STUB}\n"
            "    actual: float32 [1]\n"
            "        [0.]\n"
            "    It differs: there is an output where there must be an error.\n"
            "\n"
            "## How to run it\n"
            "\n"
            "`python repro.py`, where onnxruntime and numpy are installed, "
            "runs `model.onnx` on `inputs.npz` with\n"
            f"{STUB} alone, by `runtime.py` beside it. Its exit code is 1 where "
            "it differs, 0 where\n"
            "it does not, and 3 where the provider did not run the model.\n"
            "\n"
            "`program.json` says the same to dxdispatch, for DirectML itself.\n"
        )

    @pytest.mark.slow
    def test_a_failure_becomes_a_folder(self, tmp_path: Path) -> None:
        change = (
            "    def compute(self, data, indices): raise RuntimeError('no kernel for"
            " 7')\n"
        )
        outcome = made(tmp_path, "class InferenceSession(InferenceSession):\n" + change)
        title = f"{STUB} fails in Gather of FLOAT32 data by INT64 indices"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        code, printed = rerun(tmp_path)
        assert code == 1
        assert printed.endswith(
            f"actual: {STUB} fails: no kernel for 7\nIt differs: there is an error and"
            " no output.\n"
        )
        assert max(outcome.case.data.size, outcome.case.indices.size) == 1

    @pytest.mark.slow
    def test_a_refusal_becomes_a_folder(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def __init__(self, model, *more, **options):
                if b"Mul" not in model:
                    raise ValueError("not a model for us")
                super().__init__(model, *more, **options)
        """
        outcome = made(tmp_path, change)
        title = f"{STUB} refuses Gather of FLOAT32 data by INT64 indices"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        assert rerun(tmp_path)[1].endswith(
            f"actual: {STUB} refuses the model: not a model for us\n"
            "It differs: there is an error and no output.\n"
        )

    @pytest.mark.slow
    def test_a_crash_becomes_a_folder(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                os.kill(os.getpid(), signal.SIGSEGV)
        """
        probe = "if data.size == 3: return data[indices]\n                "
        outcome = made(tmp_path, change.replace("os.kill", probe + "os.kill"))
        title = f"{STUB} ends its process in Gather of FLOAT32 data by INT64 indices"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        assert rerun(tmp_path)[0] == -11
        issue = (tmp_path / "out" / "ISSUE.md").read_text()
        assert (
            "## Actual\n\n    the worker died of SIGSEGV and printed nothing\n\n"
            in issue
        )

    def test_where_all_is_well_there_is_no_folder(self, tmp_path: Path) -> None:
        outcome = made(tmp_path, "")
        assert (
            outcome.text == f"case 'rows' passes on lane {STUB}: nothing to reproduce"
        )
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
        self, tmp_path: Path, case: DescriptorCase, helps: str
    ) -> None:
        outcome = made(tmp_path, "PLACE = 'CPUExecutionProvider'", case)
        assert outcome.result.state == "NOT-RUN"
        assert (
            outcome.text
            == f"case 'rows' did not run on lane {STUB}: {STUB} must run every node,"
            f" but Gather (Gather) runs on CPUExecutionProvider{helps}"
        )
        assert not (tmp_path / "out").exists()

    def test_a_lane_that_does_not_start_makes_no_folder(self, tmp_path: Path) -> None:
        (lane,) = open_lanes(["openvino"], {"openvino": str(tmp_path / "python")})
        outcome = make_repro(CASE, lane, str(tmp_path / "out"))
        assert outcome.result.state == "NOT-RUN"
        assert (
            outcome.text
            == f"{tmp_path / 'python'} does not start: No such file or directory"
        )

    @pytest.mark.slow
    def test_a_script_that_does_not_show_the_fault_is_told(
        self, tmp_path: Path
    ) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                right = super().compute(data, indices)
                return right if SCRIPT else -right
        """
        outcome = made(tmp_path, change)
        assert not outcome.shown
        assert (
            outcome.text
            == f"{tmp_path / 'out'}: {STUB} returns wrong elements for Gather of"
            " FLOAT32 data by INT64 indices; but repro.py does not show it: it"
            " ended with exit code 0 and said: It does not differ."
        )
        assert rerun(tmp_path)[0] == 0
        issue = (tmp_path / "out" / "ISSUE.md").read_text()
        assert (
            "## Actual\n\n    1 of 1 elements differ, first OutputTensor[0]: expected "
            in issue
        )

    @pytest.mark.slow
    def test_a_script_that_does_not_end_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flow, "LONGEST_RUN", 1.0)
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if SCRIPT: time.sleep(60)
                return -super().compute(data, indices)
        """
        outcome = made(tmp_path, change)
        assert outcome.text.endswith(
            "; but repro.py does not show it: it did not end within 1 s"
        )

    @pytest.mark.slow
    def test_a_script_that_fails_is_told(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if SCRIPT: sys.exit("no licence")
                return -super().compute(data, indices)
        """
        outcome = made(tmp_path, change)
        assert outcome.text.endswith(
            "; but repro.py does not show it: it ended with exit code 1 and said: no"
            " licence"
        )

    def test_an_interpreter_that_does_not_start_is_told(self, tmp_path: Path) -> None:
        tmp_path.joinpath("environment").mkdir()
        python = environment(tmp_path / "environment", GATHERS + NEGATIVE)
        (lane,) = open_lanes([STUB], {STUB: python})
        with closing(lane):
            outcome = make_repro(
                CASE,
                lane,
                str(tmp_path / "out"),
                tried=lambda: Path(python).unlink(True),
            )
        assert outcome.text.endswith(
            f"; but repro.py does not show it: {python} does not start: No such file or"
            " directory"
        )

    @pytest.mark.slow
    def test_memory_that_nobody_wrote_differs_only_sometimes(
        self, tmp_path: Path
    ) -> None:
        change = """
        class InferenceSession(InferenceSession):
            runs = 0
            def compute(self, data, indices):
                self.runs += 1
                late = self.runs == 3 or not SCRIPT
                return super().compute(data, indices) * (-1 if late else 1)
        """
        outcome = made(tmp_path, change)
        assert outcome.shown

    def test_a_folder_of_others_is_refused_before_anything_runs(
        self, tmp_path: Path
    ) -> None:
        tmp_path.joinpath("out").mkdir()
        tmp_path.joinpath("out", "mine").touch()
        (lane,) = open_lanes(["openvino"], {"openvino": str(tmp_path / "python")})
        assert (
            message_of(OnnxGatherError, make_repro, CASE, lane, str(tmp_path / "out"))
            == f"{tmp_path / 'out'}: the folder must be new, empty or an earlier repro,"
            " got 'mine'"
        )

    @pytest.mark.slow
    def test_a_wrapped_gather_stays_wrapped_if_the_fault_needs_it(
        self, tmp_path: Path
    ) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def run(self, _, feeds, options):
                wrong = "One" in feeds and len(feeds["InputTensor"]) > 1
                return [super().run(_, feeds, options)[0] * (-1 if wrong else 1)]
        """
        outcome = made(tmp_path, change, CASE.wrapped_in())
        assert outcome.case.wrapped
        assert outcome.shown
        model = onnx.ModelProto.FromString(
            (tmp_path / "out" / "model.onnx").read_bytes()
        )
        assert [node.op_type for node in model.graph.node] == ["Mul", "Gather", "Mul"]
        issue = (tmp_path / "out" / "ISSUE.md").read_text()
        assert "between two multiplications by one; in DirectML" in issue.replace(
            "\n", " "
        )

    def test_a_forbidden_node_that_is_accepted_becomes_a_folder(
        self, tmp_path: Path
    ) -> None:
        rule = "axis must be in [-2, 2), got 2"
        node = ForbiddenNode("Gather", {"axis": 2}, (3, 4), rule)
        case = NodeCase("bare", node, CASE.data, np.array([1, 2, 0]))
        outcome = made(tmp_path, "", case)
        title = f"{STUB} runs a Gather that ONNX forbids"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        assert isinstance(outcome.case, NodeCase)
        assert outcome.case.node.rule == "axis must be in [-1, 1), got 1"
        assert not (tmp_path / "out" / "program.json").exists()
        issue = (tmp_path / "out" / "ISSUE.md").read_text()
        assert (
            "ONNX's `Gather` with `axis=1`, on data FLOAT32 [1] and indices INT64 []."
            " ONNX does not allow it, as:      axis must be in [-1, 1), got 1 "
            in issue.replace("\n", " ")
        )
        assert "dxdispatch" not in issue

    @pytest.mark.slow
    def test_a_hang_becomes_a_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flow, "LONGEST_RUN", 1.0)
        tmp_path.joinpath("environment").mkdir()
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if data.size != 3: time.sleep(60)
                return data[indices]
        """
        python = environment(
            tmp_path / "environment", GATHERS + textwrap.dedent(change)
        )
        (lane,) = open_lanes([STUB], {STUB: python}, timeout=1)
        with closing(lane):
            outcome = make_repro(CASE, lane, str(tmp_path / "out"), reduce=False)
        title = f"{STUB} hangs in Gather of FLOAT32 data by INT64 indices"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"

    @pytest.mark.slow
    def test_an_interruption_keeps_the_smallest_case_so_far(
        self, tmp_path: Path
    ) -> None:
        stop, calls = KeyboardInterrupt(), iter(range(5))

        def tried() -> None:
            if next(calls, None) is None:
                raise stop

        outcome = made(tmp_path, NEGATIVE, tried=tried)
        title = (
            f"{STUB} returns wrong elements for Gather of FLOAT32 data by INT64 indices"
        )
        assert (
            outcome.text
            == f"{tmp_path / 'out'}: {title}; interrupted: smaller cases may show it"
            " too, and repro.py was not tried"
        )
        assert (outcome.stop, outcome.shown) == (stop, False)
        assert outcome.case.data.size < CASE.data.size
        assert rerun(tmp_path)[0] == 1

    def test_an_interruption_without_an_interpreter_names_no_script(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def tried() -> None:
            raise KeyboardInterrupt

        (tmp_path / "environment").mkdir()
        change = textwrap.dedent(NEGATIVE)
        library = library_of(
            tmp_path / "environment", monkeypatch, f"{GATHERS}{change}"
        )
        (lane,) = open_lanes([], {STUB: library})
        with closing(lane):
            outcome = make_repro(CASE, lane, str(tmp_path / "out"), tried=tried)
        title = (
            f"{STUB} returns wrong elements for Gather of FLOAT32 data by INT64 indices"
        )
        assert (
            outcome.text
            == f"{tmp_path / 'out'}: {title}; interrupted: smaller cases may show it"
            " too, and the lane was not asked again"
        )

    @pytest.mark.slow
    def test_an_interrupted_write_leaves_no_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
                "returns wrong elements for Gather of FLOAT32 data by INT64 indices",
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
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        change: str,
        case: Case,
        title: str,
    ) -> None:
        (tmp_path / "environment").mkdir()
        library = library_of(tmp_path / "environment", monkeypatch, GATHERS + change)
        (lane,) = open_lanes([], {STUB: library})
        folder = tmp_path / "out"
        with closing(lane):
            outcome = make_repro(case, lane, str(folder))
        assert outcome.text == f"{folder}: {STUB} {title}; the lane shows it"
        assert (outcome.shown, outcome.folder) == (True, str(folder))
        issue = (folder / "ISSUE.md").read_text()
        assert (
            "\nThe lane itself ran `model.onnx`; `repro.py` was not tried.\n" in issue
        )
        model = onnx.ModelProto.FromString((folder / "model.onnx").read_bytes())
        assert [node.op_type for node in model.graph.node] == ["Gather"]
        assert rerun(tmp_path)[0] in (1, -6)  # in Python too

    def test_a_lane_that_is_right_when_it_is_asked_again_shows_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "environment").mkdir()
        once = f"(indices < 0).any() and not os.path.exists({str(tmp_path / 'once')!r})"
        change = NEGATIVE.replace(
            "return",
            f"if {once}:\n            open({str(tmp_path / 'once')!r}, 'w').close()\n"
            "            return super().compute(data, indices) + 1\n        return",
        ).replace("np.maximum(indices, 0)", "indices")
        library = library_of(tmp_path / "environment", monkeypatch, GATHERS + change)
        (lane,) = open_lanes([], {STUB: library})
        with closing(lane):
            outcome = make_repro(CASE, lane, str(tmp_path / "out"), reduce=False)
        assert not outcome.shown
        assert (
            outcome.text
            == f"{tmp_path / 'out'}: {STUB} returns wrong elements for Gather of"
            " FLOAT32 data by INT64 indices; but the lane does not show it: it"
            " returned the expected output"
        )

    REPORTED = LaneInfo(
        STUB, STUB, {"python": "3.1", "onnxruntime": "9.9.9"}, target="portable"
    )

    def test_a_lane_of_a_report_runs_here_if_the_runtime_is_the_same(
        self, tmp_path: Path
    ) -> None:
        outcome = made(tmp_path, NEGATIVE, reported=self.REPORTED)
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
        self, tmp_path: Path, change: str, here: str
    ) -> None:
        outcome = made(tmp_path, change, reported=self.REPORTED)
        assert (outcome.result.state, outcome.folder) == ("NOT-RUN", None)
        assert (
            outcome.text
            == f"lane '{STUB}' of the report ran with 'python 3.1, onnxruntime 9.9.9',"
            f" but here {here}; give its environment: --lane NAME=PATH"
        )

    def test_a_lane_without_onnx_runtime_is_refused(self, tmp_path: Path) -> None:
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
