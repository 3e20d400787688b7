"""`run --whole` and the model of a whole program: what `run` prints, writes and tells."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from agreement import LONG, POLICIES
from command_line import outcome
from folders import MODELS
from random_programs import random_program
from small_programs import gather, shown, small_program

import onnxgather as og
from onnxgather.descriptors.arrays import Array
from onnxgather.execution import session
from onnxgather.model import check_model
from onnxgather.options import OutOfRange, Target
from onnxgather.parity.cases import DescriptorCase
from onnxgather.parity.lanes.directml import DIRECTML_DLL, DirectMLLane, find_host
from onnxgather.programs import Program, execute, parse_program
from onnxgather.programs.running import EvaluateBy
from onnxgather.programs.whole_run import run_whole

PROGRAMS = 300 if LONG else 60
"""Random programs whose models must give what `run` gives."""

FOLDERS = count()
TARGETS: list[Target] = ["portable", "cpu"]
X, I, Y = [11.0, 12.0, 13.0, 14.0], (3, 1, 3, 0), [0.0, 0.0, 0.0, 0.0]  # noqa: E741


def told(program: Program, evaluate: EvaluateBy, policy: OutOfRange, tmp_path: Path) -> Any:
    """Return all that a run of a program tells: lines, notes, an error, and files by command."""
    lines, notes, error = b"", list[str](), ""
    folder = tmp_path / str(next(FOLDERS))
    folder.mkdir()
    run = execute(program, evaluate, policy, output_folder=folder, note=notes.append)
    try:
        for piece in run:
            lines += piece.replace(bytes(folder), b"FOLDER")
    except og.OnnxGatherError as caught:
        error = f"{type(caught).__name__}: {caught}"
    files = {f"$.commands[{path.stem}]": path.read_bytes() for path in folder.iterdir()}
    return lines, notes, error, files


def model_outputs(model: Any) -> dict[str, Array]:
    """Return what commands show, by their paths, as ONNX Runtime computes it on the CPU."""
    opened: Any = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in opened.get_outputs()]
    found = dict(zip(names, opened.run(None, {}), strict=True))
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    shown_by = json.loads(metadata["onnxgather.commands"])
    return {path: found[name] for path, name in shown_by.items()}


def test_a_whole_program_gives_what_its_dispatches_give_one_by_one(tmp_path: Path) -> None:
    compared, errors, gathers, noted = 0, 0, set[int](), 0
    for seed in range(PROGRAMS):
        program = parse_program(random_program(seed), "p.json")
        policy, target = POLICIES[seed % 4], TARGETS[seed % 5 % 2]
        wanted = told(program, session.run, policy, tmp_path)
        assert told(program, run_whole(program), policy, tmp_path) == wanted, seed
        model = og.program_to_onnx(program, policy, target, (13, 17, 21)[seed % 3], inputs=())
        check_model(model)
        _, notes, error, files = wanted
        if error:
            assert error.startswith("IndexOutOfRangeError: p.json: $.commands[")
            with pytest.raises(Exception, match=r"[Oo]ut of|invalid index"):
                model_outputs(model)
            errors += 1
            continue
        found = model_outputs(model)
        for path, content in files.items():
            array = found[path].tobytes()  # the last bytes may be no whole element
            assert (array, len(content) - len(array) < 8) == (content[: len(array)], True), seed
        compared, noted = compared + len(files), noted + bool(notes)
        gathers.add(len(program.dispatch_commands))
    assert gathers == {1, 2, 3, 4, 5, 6}
    assert compared > PROGRAMS
    assert min(errors, noted) > PROGRAMS / 20


@pytest.mark.skipif(not find_host(), reason="scripts/directml/setup.sh has not run")
def test_directml_itself_computes_what_the_model_of_a_program_computes(tmp_path: Path) -> None:
    with closing(DirectMLLane(DIRECTML_DLL)) as lane:
        lane.start()

        def by_directml(desc: og.Descriptor, data: Array, indices: Array, policy: Any) -> Array:
            assert policy in ("clamp", "directml")  # where all indices are in range they agree
            answer = lane.answer(DescriptorCase("gather", desc, data, indices, "directml"))
            assert answer.output is not None, answer.reason
            return answer.output

        for seed in range(60 if LONG else 20):
            program = parse_program(random_program(seed), "p.json")
            wanted = told(program, by_directml, "directml", tmp_path)
            assert told(program, run_whole(program), "directml", tmp_path) == wanted, seed


@pytest.mark.parametrize("policy", POLICIES)
def test_run_whole_prints_what_run_prints(policy: str, tmp_path: Path) -> None:
    text = small_program(
        {"x": X, "i": I, "far": (0, 9, 1, 2), "y": Y},
        gather("x", "i", "y", 4, 4),
        shown("y"),
        gather("y", "far", "x", 4, 4),
        shown("x"),
        gather("x", "i", "y", 4, 4),
        shown("y"),
    )
    path = tmp_path / "p.json"
    path.write_text(text, encoding="utf-8")
    one, whole = (
        outcome("run", str(path), "--out-of-range", policy, *more) for more in ((), ("--whole",))
    )
    assert one == whole
    assert one[1].startswith("Resource 'y': 14, 12, 14, 11\n")
    assert one[0] == (1 if policy == "error" else 0)
    assert "indices out of range: 1 of 4" in one[2] or policy == "error"


def test_run_whole_prints_the_txt_of_every_program_of_the_checkout() -> None:
    for path in MODELS.glob("*.json"):
        lines = path.with_suffix(".txt").read_text(encoding="latin-1")
        assert outcome("run", "--whole", str(path)) == (0, lines, "")


def test_run_whole_runs_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[Any]()

    def counted(model: Any, *rest: Any, **more: Any) -> session.Session:
        opened.append(model)
        return session.Session(model, *rest, **more)

    monkeypatch.setattr("onnxgather.programs.whole_run.Session", counted)
    text = small_program(
        {"x": X, "i": I, "y": Y}, gather("x", "i", "y", 4, 4), gather("y", "i", "x", 4, 4)
    )
    program = parse_program(text, "p.json")
    list(execute(program, run_whole(program), output_folder="."))
    assert len(opened) == 1
