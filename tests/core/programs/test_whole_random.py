"""The models of random whole programs, which compute what `run` writes."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from agreement import POLICIES
from model_metadata import metadata_of
from random_programs import random_program
from rings import by_ring

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.lanes.directml import DirectMLLane, find_host
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import session
from onnxgather.core.model.write import check_model
from onnxgather.core.options import OutOfRange, Target
from onnxgather.core.programs.program import Program, parse_program
from onnxgather.core.programs.running import execute

PROGRAMS = by_ring(20, 60)
"""Random programs whose models must give what `run` gives."""

FOLDERS = count()
TARGETS: list[Target] = ["portable", "cpu"]


def told(
    program: Program, evaluate: Any, policy: OutOfRange, tmp_path: Path
) -> tuple[list[str], str, dict[str, bytes]]:
    """Return what a run of a program tells: its notes, its error, and its files by
    command."""
    notes, error = list[str](), ""
    folder = tmp_path / str(next(FOLDERS))
    folder.mkdir()
    try:
        list(
            execute(program, evaluate, policy, output_folder=folder, note=notes.append)
        )
    except og.OnnxGatherError as caught:
        error = f"{type(caught).__name__}: {caught}"
    files = {f"$.commands[{path.stem}]": path.read_bytes() for path in folder.iterdir()}
    return notes, error, files


def model_outputs(model: Any) -> dict[str, Array]:
    """Return what commands show, by their paths, as ONNX Runtime computes it on the
    CPU."""
    opened: Any = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in opened.get_outputs()]
    found = dict(zip(names, opened.run(None, {}), strict=True))
    return {path: found[name] for path, name in metadata_of(model)["commands"].items()}


def check_files(files: dict[str, bytes], found: dict[str, Array], seed: int) -> None:
    """Check that each file has the bytes of the model's output for the command that
    wrote it."""
    for path, content in files.items():
        array = found[path].tobytes()  # the last bytes may be no whole element
        assert (array, len(content) - len(array) < 8) == (
            content[: len(array)],
            True,
        ), seed


def test_a_whole_program_gives_what_its_dispatches_give_one_by_one(
    tmp_path: Path,
) -> None:
    compared, errors, gathers, noted = 0, 0, set[int](), 0
    for seed in range(PROGRAMS):
        program = parse_program(random_program(seed), "p.json")
        policy, target = POLICIES[seed % 4], TARGETS[seed % 5 % 2]
        model = og.program_to_onnx(
            program, policy, target, (13, 17, 21)[seed % 3], inputs=()
        )
        check_model(model)
        notes, error, files = told(program, session.run, policy, tmp_path)
        if error:
            assert error.startswith("IndexOutOfRangeError: p.json: $.commands[")
            with pytest.raises(Exception, match=r"[Oo]ut of|invalid index"):
                model_outputs(model)
            errors += 1
            continue
        check_files(files, model_outputs(model), seed)
        compared, noted = compared + len(files), noted + bool(notes)
        gathers.add(len(program.dispatch_commands))
    assert gathers == {1, 2, 3, 4, 5, 6}
    assert compared > PROGRAMS
    assert min(errors, noted) > PROGRAMS / 20


@pytest.mark.slow
@pytest.mark.skipif(not find_host(), reason="scripts/directml/setup.sh has not run")
def test_directml_itself_computes_what_the_model_of_a_program_computes(
    tmp_path: Path,
) -> None:
    compared = 0
    with closing(DirectMLLane("directml-dll")) as lane:
        lane.start()

        def by_directml(
            desc: og.Descriptor, data: Array, indices: Array, policy: Any
        ) -> Array:
            # where all indices are in range they agree
            assert policy in ("clamp", "directml")
            answer = lane.answer(
                DescriptorCase("gather", desc, data, indices, "directml")
            )
            assert answer.output is not None, answer.reason
            return answer.output

        for seed in range(20):
            program = parse_program(random_program(seed), "p.json")
            _, error, files = told(program, by_directml, "directml", tmp_path)
            assert error == ""
            model = og.program_to_onnx(program, "directml", inputs=())
            check_files(files, model_outputs(model), seed)
            compared += len(files)
    assert compared > 20
