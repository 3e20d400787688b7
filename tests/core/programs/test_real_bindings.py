"""Programs on DirectML.dll with their real bindings: at offsets, some in one
resource."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import outcome
from folders import MODELS
from messages import message_of
from random_programs import random_program
from small_programs import gather, shown, small_program, written

import onnxgather as og
from onnxgather.checking.lanes.directml import Host, find_host, open_host
from onnxgather.core.execution import session
from onnxgather.core.programs.program import Program, parse_program, read_program
from onnxgather.core.programs.running import execute

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not find_host(), reason="scripts/directml/setup.sh has not run"),
]

UINT = {"DataType": "UINT32"}
X, I, Y = [11.0, 12.0, 13.0, 14.0], (3, 1, 3, 0), [0.0] * 4  # noqa: E741


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """Yield DirectML.dll itself."""
    with closing(open_host()) as opened:
        yield opened


def printed(host: Host, program: Program, note: Callable[[str], None] = print) -> str:
    """Return what a program prints on DirectML.dll."""
    options: Any = {"output_folder": ".", "note": note, "on_resources": host.dispatch}
    return b"".join(execute(program, session.run, **options)).decode("latin-1")


def of(resources: dict[str, Any], *commands: dict[str, Any]) -> Program:
    """Return a program."""
    return parse_program(small_program(resources, *commands), "p.json")


def counted_down(count: int) -> str:
    """Return a program of one resource as input, indices and output: count - 1 down to
    0."""
    tensor = {"DataType": "INT32", "Sizes": [count]}
    fields = {"InputTensor": tensor, "IndicesTensor": tensor, "OutputTensor": tensor}
    desc = {"type": "GATHER", **fields, "Axis": 0, "IndexDimensions": 1}
    bindings = dict.fromkeys(fields, "x")
    values = {"valueStart": count - 1, "valueDelta": -1, "valueCount": count}
    return json.dumps(
        {
            "resources": {
                "x": {"initialValuesDataType": "INT32", "initialValues": values}
            },
            "dispatchables": {"g": desc},
            "commands": [
                {"type": "dispatch", "dispatchable": "g", "bindings": bindings},
                {"type": "print", "resource": "x"},
            ],
        }
    )


def test_in_place_directml_reads_what_it_has_written(tmp_path: Path) -> None:
    # DirectML 1.15.4 writes the first half before it reads the second; 0 to 63 is the
    # formula's.
    path = tmp_path / "p.json"
    path.write_text(counted_down(64), encoding="utf-8")
    values = [*range(32), *reversed(range(32))]
    code, out, err = outcome("run", str(path), "--provider", "directml-dll")
    assert (code, out) == (0, f"Resource 'x': {', '.join(map(str, values))}\n")
    rule = (
        "must share no byte with {0}, as Microsoft's BindInputs page allows it only to "
    )
    rule += (
        "operators that run in place, not gathers, got bytes 0 to 255 of resource 'x', "
    )
    rule += "where {0} has 0 to 255; DirectML.dll may read what it has written"
    told = [line for line in err.splitlines() if not line.startswith("directml-dll")]
    assert told == [
        f"{path}: $.commands[0].bindings.OutputTensor {rule.format(role)}"
        for role in ("InputTensor", "IndicesTensor")
    ]


def test_tensors_are_bound_at_their_offsets_and_other_bytes_stay(host: Host) -> None:
    program = of(
        {"x": [*range(1, 13)], "i": (9, 9, 9, 9, 1, 0), "y": [7.0] * 8},
        gather(
            {"name": "x", "elementOffset": 4},
            {"name": "i", "elementOffset": 4},
            {"name": "y", "elementOffset": 4},
            4,
            2,
        ),
        shown("y"),
        shown("x"),
    )
    assert (
        printed(host, program) == "Resource 'y': 7, 7, 7, 7, 6, 5, 7, 7\n"
        "Resource 'x': 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12\n"
    )


def test_one_resource_may_hold_data_and_indices_and_apart_from_them_the_output(
    host: Host,
) -> None:
    both = gather(
        "i",
        "i",
        {"name": "i", "elementOffset": 4},
        4,
        4,
        InputTensor=UINT,
        OutputTensor=UINT,
    )
    assert (
        printed(host, of({"i": (3, 1, 3, 0, 8, 8, 8, 8)}, both, shown("i")))
        == "Resource 'i': 3, 1, 3, 0, 0, 1, 0, 3\n"
    )


def test_an_input_owned_by_dml_has_the_values_from_before_the_first_command(
    host: Host,
) -> None:
    program = of(
        {"x": X, "i": I, "y": Y},
        gather("y", "i", "x", 4, 4),
        gather("x", "i", "y", 4, 4, InputTensor={"Flags": "OWNED_BY_DML"}),
        shown("x"),
        shown("y"),
    )
    assert (
        printed(host, program)
        == "Resource 'x': 0, 0, 0, 0\nResource 'y': 14, 12, 14, 11\n"
    )


def test_an_index_out_of_range_reads_what_lies_behind_the_elements(host: Host) -> None:
    longer = {"TotalTensorSizeInBytes": 16}
    program = of(
        {"x": [*X, 99.0, 99.0], "i": (3, 9), "y": [0.0, 0.0]},
        gather("x", "i", "y", 2, 2, InputTensor=longer),
        shown("y"),
    )
    notes = list[str]()
    assert printed(host, program, notes.append) == "Resource 'y': 14, 14\n"
    assert notes == [
        "p.json: $.commands[0]: indices out of range: 2 of 2, first IndicesTensor[0] ="
        " 3; 2 of 2 output elements differ, first OutputTensor[0]: 14 under directml,"
        " 12 under clamp"
    ]


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.json")))
def test_a_program_of_the_checkout_prints_its_txt(host: Host, name: str) -> None:
    wanted = (MODELS / f"{name}.txt").read_text(encoding="latin-1")
    assert printed(host, read_program(MODELS / f"{name}.json")) == wanted


def files_of(program: Program, folder: Path, **options: Any) -> dict[str, bytes]:
    """Return the files that a run of a program writes."""
    folder.mkdir()
    list(execute(program, session.run, output_folder=folder, **options))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_random_programs_give_the_bytes_that_run_gives_on_the_cpu(
    host: Host, tmp_path: Path
) -> None:
    compared = 0
    for seed in range(1000, 1030):
        program = parse_program(random_program(seed), "p.json")
        wanted = files_of(program, tmp_path / f"{seed}-cpu")
        assert (
            files_of(program, tmp_path / f"{seed}", on_resources=host.dispatch)
            == wanted
        ), seed
        compared += len(wanted)
    assert compared > 20


def test_a_binding_that_directml_refuses_is_one_sentence(host: Host) -> None:
    program = parse_program(written("y = x[i]"), "p.json")
    desc = program.dispatch_commands[0].descriptor
    x, i, y = (np.zeros(40, np.uint8) for _ in range(3))
    bound: Any = [(x, 8), (i, 0), (y, 0)]
    assert message_of(og.ProviderError, host.dispatch, desc, bound) == (
        f"DirectML.dll {host.info.version} must run the dispatch, but dispatch gave"
        " 0x887A0005"
    )
    assert host.dispatch(desc, [(x, 16), (i, 0), (y, 16)]).tobytes() == bytes(40)
