"""Programs in place: an input that shares bytes with the output of its dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from messages import message_of
from small_programs import gather, shown, small_program, written

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.programs.program import Program, parse_program
from onnxgather.core.programs.running import execute

X, I, Y = [11.0, 12.0, 13.0, 14.0], (3, 1, 3, 0), [0.0] * 4  # noqa: E741
UINT = {"DataType": "UINT32"}
MENDING = "use two resources, or run it with --provider directml-dll"


def rule(role: str, command: int = 0) -> str:
    """Return the rule that an input breaks."""
    return (
        f"$.commands[{command}].bindings.OutputTensor must share no byte with {role},"
        " as Microsoft's BindInputs page allows it only to operators that run in"
        " place, not gathers"
    )


def of(resources: dict[str, Any], *commands: dict[str, Any]) -> Program:
    """Return a program."""
    return parse_program(small_program(resources, *commands), "p.json")


def part(name: str, offset: int) -> dict[str, Any]:
    """Return a binding of a resource from an offset in bytes on."""
    return {"name": name, "elementOffset": offset // 4}


IN_PLACE = parse_program(written("x = x[i]; print x"), "p.json")
TOLD = (
    f"{rule('InputTensor')}, got bytes 0 to 15 of resource 'x', where InputTensor has 0"
    " to 15"
)


class TestWhatSharesBytes:
    def test_one_resource_for_all_three_tensors_is_told_of_each_input(self) -> None:
        own = gather("i", "i", "i", 4, 4, InputTensor=UINT, OutputTensor=UINT)
        got = "got bytes 0 to 15 of resource 'i', where"
        assert [*of({"i": I}, own).in_place()] == [
            f"{rule('InputTensor')}, {got} InputTensor has 0 to 15; {MENDING}",
            f"{rule('IndicesTensor')}, {got} IndicesTensor has 0 to 15; {MENDING}",
        ]

    @pytest.mark.parametrize(
        ("total", "offset", "last"),
        [(16, 16, None), (20, 16, 19), (32, 16, 31), (16, 0, 15)],
    )
    def test_ranges_that_touch_share_none_and_those_that_share_four_bytes_do(
        self, total: int, offset: int, last: int | None
    ) -> None:
        x = {"initialValuesDataType": "FLOAT32", "initialValues": [0.0] * 16}
        longer = {"TotalTensorSizeInBytes": total}
        behind = gather("x", "i", part("x", offset), 4, 4, InputTensor=longer)
        end = (
            f"got bytes {offset} to {offset + 15} of resource 'x', where InputTensor"
            " has 0 to"
        )
        told = (
            [] if last is None else [f"{rule('InputTensor')}, {end} {last}; {MENDING}"]
        )
        assert [*of({"x": x, "i": I}, behind).in_place()] == told
        before = gather(part("x", offset), "i", "x", 4, 4, OutputTensor=longer)
        got = (
            f"got bytes 0 to {total - 1} of resource 'x', where InputTensor has"
            f" {offset} to"
        )
        told = (
            []
            if last is None
            else [f"{rule('InputTensor')}, {got} {offset + 15}; {MENDING}"]
        )
        assert [*of({"x": x, "i": I}, before).in_place()] == told

    def test_the_gaps_of_a_tensor_with_strides_are_its_bytes(self) -> None:
        x = {"initialValuesDataType": "FLOAT32", "initialValues": [0.0] * 20}
        strided = gather(part("x", 32), "i", "x", 4, 4, OutputTensor={"Strides": [3]})
        assert [*of({"x": x, "i": I}, strided).in_place()] == [
            f"{rule('InputTensor')}, got bytes 0 to 39 of resource 'x', where"
            f" InputTensor has 32 to 47; {MENDING}"
        ]

    def test_data_and_indices_may_share_a_resource(self) -> None:
        both = gather("i", "i", "y", 4, 4, InputTensor=UINT, OutputTensor=UINT)
        y = {
            "initialValuesDataType": "UINT32",
            "initialValues": {"value": 0, "valueCount": 4},
        }
        program = of({"i": I, "y": y}, both, shown("y"))
        assert [*program.in_place()] == []
        assert printed(program) == "Resource 'y': 0, 1, 0, 3\n"

    def test_an_input_owned_by_dml_is_read_before_the_first_command(self) -> None:
        owned = gather("x", "i", "x", 4, 4, InputTensor={"Flags": "OWNED_BY_DML"})
        program = of({"x": X, "i": I}, owned, shown("x"))
        assert [*program.in_place()] == []
        assert printed(program) == "Resource 'x': 14, 12, 14, 11\n"

    def test_each_dispatch_is_judged_alone(self) -> None:
        there_and_back = parse_program(written("y = x[i]; x = y[i]"), "p.json")
        assert [*there_and_back.in_place()] == []
        again = parse_program(written("y = x[i]; print y; y = y[i]"), "p.json")
        assert [*again.in_place()] == [
            f"{rule('InputTensor', 2)}, got bytes 0 to 15 of resource 'y', where"
            f" InputTensor has 0 to 15; {MENDING}"
        ]


def printed(program: Program, **options: Any) -> str:
    """Return what a program prints."""
    return b"".join(execute(program, reference, output_folder=".", **options)).decode()


class TestRefusals:
    @pytest.mark.parametrize(
        "use",
        [
            lambda: execute(IN_PLACE, reference, output_folder="."),
            lambda: [*IN_PLACE.dispatched(reference)],
            lambda: og.program_to_onnx(IN_PLACE),
        ],
        ids=["execute", "dispatches", "program_to_onnx"],
    )
    def test_all_that_computes_a_program_refuses_it(self, use: Any) -> None:
        assert message_of(og.FileFormatError, use) == f"p.json: {TOLD}; {MENDING}"

    def test_with_its_real_bindings_it_runs_and_is_told(self) -> None:
        notes, asked = list[str](), list[Any]()

        def on_resources(desc: Descriptor, bound: Sequence[tuple[Array, int]]) -> Array:
            asked.append((desc, [offset for _, offset in bound]))
            assert bound[0][0] is bound[2][0]
            assert bound[0][0] is not bound[1][0]
            return np.array([1, 2, 3, 4], np.float32).view(np.uint8)

        text = printed(IN_PLACE, note=notes.append, on_resources=on_resources)
        assert text == "Resource 'x': 1, 2, 3, 4\n"
        assert asked == [(IN_PLACE.dispatch_commands[0].descriptor, [0, 0, 0])]
        assert notes == [f"p.json: {TOLD}; DirectML.dll may read what it has written"]
