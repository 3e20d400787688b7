"""What certificates do because of ONNX Runtime's deviations (`core/model/quirks.py`).

A model that is proved must mean its descriptor at each level of optimization, and a
model that fails must fail at each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnxgather.core.model.network import Operation, Scope
from onnxgather.core.model.quirks import (
    CAST_OF_SIZES,
    DECLARED_SIZES,
    DIVISION_THAT_STOPS,
    GATHER_OF_RANGE,
    QUOTIENT_OF_ONE,
    SIZES_OF_ONE_NAME,
    SLICE_BACKWARDS,
    SQUEEZE_OF_NO_AXES,
    WHERE_OF_FLOATS,
    Quirk,
)
from onnxgather.proving.tensors import Run, ensure
from onnxgather.proving.terms import Int

_OTHER_SIZES = "the value {name}, of which other sizes are declared"

_REFUSALS: Mapping[Quirk, str] = {
    DECLARED_SIZES: _OTHER_SIZES,
    SIZES_OF_ONE_NAME: _OTHER_SIZES,
    CAST_OF_SIZES: "a Cast that changes a number that is known, which may be a size",
    QUOTIENT_OF_ONE: "a Div of 1, which ONNX Runtime may join with a Mul behind it",
    GATHER_OF_RANGE: "a Range with an end below 0, of which may be made a Slice",
    SLICE_BACKWARDS: "a Slice with the step 0, or backwards from below 0 or to "
    "2^31 - 1",
    SQUEEZE_OF_NO_AXES: "a Squeeze of no axes, of which the CPU provider makes one of "
    "all",
    WHERE_OF_FLOATS: "Where of floats, of which the CPU provider changes -0.0 and NaNs",
    DIVISION_THAT_STOPS: "a division that may stop the process",
}
"""Why a model that meets a quirk is undecided, if certificates refuse such models."""

SIZE_INPUTS: Mapping[str, Sequence[int]] = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "ReduceSum": (1,),
    "Reshape": (1,),
    "Shape": (0,),
    "Size": (0,),
    "Slice": (1, 2, 3, 4),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
}
"""The inputs of ONNX's operators whose elements, or whose sizes alone, say only which
sizes or which part of another value the output is."""


def avoid(quirk: Quirk, is_met: object, **words: object) -> None:
    """Go on only where a model does not meet a quirk.

    Args:
        quirk: The quirk.
        is_met: Whether the model meets it.
        words: What the refusal names.

    Raises:
        UndecidedError: The model meets it.
    """
    refusal = _REFUSALS[quirk].format(**words)
    ensure(not is_met, refusal)


def precondition(quirk: Quirk, is_shown: bool) -> str:
    """Return what a certificate assumes because of a quirk that newer versions lack.

    Args:
        quirk: The quirk.
        is_shown: Whether the certificate is for a version that shows it.
    """
    behaviour = quirk.behaviour.removesuffix(".")
    version = quirk.right_from
    if is_shown:
        return f"{behaviour}, as in ONNX Runtime before {version}"
    return f"ONNX Runtime is {version} or newer, because in older versions {behaviour}"


def reaching(scope: Scope, outputs: Iterable[str]) -> set[str]:
    """Return the values whose elements some outputs of a graph are computed from.

    A value of which only sizes follow does not count: see `SHAPE_OF_FAILING` and
    `RESHAPE_OF_FAILING`.

    Args:
        scope: The graph.
        outputs: The names of the outputs.
    """
    reached = {*outputs}
    for operation in reversed(scope.operations):
        used = [name in reached for name in operation.outputs]
        if not any(used):
            continue
        if operation.bodies:
            for body in operation.bodies.values():
                reached |= _reaching_through(body, operation, used)
            continue
        reached |= _inputs_with_elements(operation)
    return reached


def _inputs_with_elements(operation: Operation) -> set[str]:
    """Return the inputs of an operation whose elements decide those of its outputs."""
    dropped: Sequence[int] = ()
    # An operator of another domain may have the name of one of ONNX.
    if not operation.domain:
        dropped = SIZE_INPUTS.get(operation.operator, ())
    names = set[str]()
    for number, name in enumerate(operation.inputs):
        if number not in dropped:
            names.add(name)
    return names


def _reaching_through(
    body: Scope, operation: Operation, used: Sequence[bool]
) -> set[str]:
    """Return the values outside a body that its used outputs are computed from."""
    outputs: list[str] = []
    # A call may leave out the last outputs of a function.
    for name, is_used in zip(body.outputs, used, strict=False):
        if is_used:
            outputs.append(name)
    inside = reaching(body, outputs)
    outside: set[str] = set()
    # It may leave out the last inputs, too; the branches of an If have none.
    for inner, outer in zip(body.inputs, operation.inputs, strict=False):
        if inner in inside:
            outside.add(outer)
    # The body of a node uses values of the graph around it by their names.
    if body.outer is not None:
        outside |= inside - body.types.keys()
    return outside


def ensure_declared(
    run: Run, name: str, declared: Sequence[int | str], sizes: Sequence[Int]
) -> None:
    """Go on only where a value has the sizes that the model declares.

    Raises:
        UndecidedError: It has others, or two sizes have one name.
    """
    has_other_rank = len(declared) != len(sizes)
    avoid(DECLARED_SIZES, has_other_rank, name=name)
    for declared_size, size in zip(declared, sizes, strict=True):
        if isinstance(declared_size, int):
            is_other = declared_size != size
            avoid(DECLARED_SIZES, is_other, name=name)
        elif declared_size:
            # The first size of a name decides; without a name any size will do.
            first_size = run.names.setdefault(declared_size, size)
            is_other = first_size != size
            avoid(SIZES_OF_ONE_NAME, is_other, name=name)
