"""What ONNX Runtime does otherwise than ONNX's specification says, one row each.

A model that is proved must mean its descriptor at each level of optimization, and a
model that fails must fail at each. Each row of `QUIRKS` names a behaviour, and the rule
that keeps certificates from trusting the specification there. The test of a row shows
the behaviour on the installed ONNX Runtime, and fails where it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from onnxgather.core.model.network import Operation, Scope
from onnxgather.proving.tensors import Run, ensure
from onnxgather.proving.terms import Int

OptimizationLevel: TypeAlias = Literal["disabled", "basic", "extended", "all"]

OPTIMIZATION_LEVELS: Mapping[OptimizationLevel, int] = {
    "disabled": 0,
    "basic": 1,
    "extended": 2,
    "all": 99,
}
"""ONNX Runtime's number of each level of optimization. A level does what those before
it do."""

MEASURED = ("1.24.4", "1.32.0")
"""The versions of ONNX Runtime that each row was measured on."""


@dataclass(frozen=True, slots=True)
class Quirk:
    """A behaviour of ONNX Runtime's CPU provider that certificates know."""

    name: str
    behaviour: str
    """What ONNX Runtime does, as a sentence."""
    level: OptimizationLevel
    """The first level of optimization that shows it; "disabled" for a kernel's."""
    rule: str
    """What certificates do because of it, as a sentence."""
    code: str
    """The function of `proving/` that applies the rule."""
    refusal: str = ""
    """Why a model that meets it is undecided, if the rule refuses such models."""
    versions: Sequence[str] = MEASURED
    """The measured versions of ONNX Runtime that show it."""
    last_level: OptimizationLevel = "all"
    """The last level of optimization that shows it."""

    @property
    def levels(self) -> tuple[OptimizationLevel, ...]:
        """Return the levels of optimization that show it."""
        levels = tuple(OPTIMIZATION_LEVELS)
        first = levels.index(self.level)
        last = levels.index(self.last_level)
        return levels[first : last + 1]

    def avoid(self, is_met: object, **words: object) -> None:
        """Go on only where a model does not meet it.

        Args:
            is_met: Whether the model meets it.
            words: What the refusal names.

        Raises:
            UndecidedError: The model meets it.
        """
        refusal = self.refusal.format(**words)
        ensure(not is_met, refusal)


SHAPE_OF_FAILING = Quirk(
    "Shape of what may fail",
    "Where it infers the sizes of a value, it makes a constant of the value's Shape, "
    "and drops the nodes whose values nothing else uses.",
    "basic",
    "A node that may fail counts as failing only if its value reaches an output of "
    "the model by elements. It counts as not failing only if it never fails.",
    "quirks.reaching",
)
RESHAPE_OF_FAILING = Quirk(
    "Reshape to what may fail",
    "If a Concat joins the sizes of a Reshape, it makes -1 of one size that is no "
    "constant, and drops the nodes that compute the size.",
    "basic",
    "A value does not reach an output by elements where it names sizes.",
    "quirks.reaching",
)
DECLARED_SIZES = Quirk(
    "declared sizes",
    "It believes the sizes that a model declares for a value.",
    "basic",
    "A value must have the sizes that the model declares for it.",
    "quirks.ensure_declared",
    "the value {name}, of which other sizes are declared",
)
SIZES_OF_ONE_NAME = Quirk(
    "sizes of one name",
    "It believes that two sizes are equal if the model declares one name for both.",
    "basic",
    "Two sizes of one name must be equal.",
    "quirks.ensure_declared",
    "the value {name}, of which other sizes are declared",
    versions=("1.32.0",),
)
CAST_OF_SIZES = Quirk(
    "Cast of sizes",
    "Where it infers sizes that a Shape gives and a Cast changes, it infers the sizes "
    "before the Cast. The run fails, as the sizes are others.",
    "disabled",
    "A Cast must keep each number that is known.",
    "operators._cast",
    "a Cast that changes a number that is known, which may be a size",
    last_level="disabled",
)
QUOTIENT_OF_ONE = Quirk(
    "Div of 1",
    "Of `1 / x * y` it makes `y / x`, of integers too.",
    "basic",
    "The first input of a Div must not be 1.",
    "operators._quotient",
    "a Div of 1, which ONNX Runtime may join with a Mul behind it",
)
GATHER_OF_RANGE = Quirk(
    "Gather of a Range",
    "Of a Gather whose indices are a Range it makes a Slice, whose ends below 0 count "
    "from the end, and which does not fail.",
    "extended",
    "No end of a Range may be below 0.",
    "operators._range_of",
    "a Range with an end below 0, of which may be made a Slice",
)
SLICE_BACKWARDS = Quirk(
    "Slice backwards",
    "Backwards it takes the largest number of a type for the end that the step leads "
    "to.",
    "disabled",
    "A Slice backwards must end before 2^31 - 1.",
    "operators._is_usual_slice",
    "a Slice with the step 0, or backwards from below 0 or to 2^31 - 1",
)
SQUEEZE_OF_NO_AXES = Quirk(
    "Squeeze of no axes",
    "It takes an empty list of axes for all axes of size 1.",
    "disabled",
    "A Squeeze must have axes, or no input for them.",
    "operators._squeeze",
    "a Squeeze of no axes, of which the CPU provider makes one of all",
)
WHERE_OF_FLOATS = Quirk(
    "Where of floats",
    "It changes -0.0 and NaNs.",
    "disabled",
    "Floats of InputTensor must not pass a Where.",
    "operators._where",
    "Where of floats, of which the CPU provider changes -0.0 and NaNs",
)
SUM_IN_FLOATS = Quirk(
    "ReduceSum of integers",
    "It adds integers as floats of as many bits.",
    "disabled",
    "The magnitudes must have a sum that these floats hold exactly.",
    "operators._reduce_sum",
    versions=("1.32.0",),
)
DIVISION_THAT_STOPS = Quirk(
    "division that stops the process",
    "A division of the lowest number by -1 stops the process, and a division by 0 "
    "may, even if nothing uses the element.",
    "disabled",
    "Divisors must be constants, none of them 0 or -1.",
    "operators._division",
    "a division that may stop the process",
)
LOW_HALVES_AS_SIGNED = Quirk(
    "low halves",
    "Min, Max and Clip of INT64 compare low halves as signed integers where the high "
    "ones are equal.",
    "disabled",
    "With `low_halves=True` certificates use these comparisons.",
    "operators._ordered",
    versions=("1.24.4", "1.31.1"),
)

QUIRKS: Sequence[Quirk] = (
    SHAPE_OF_FAILING,
    RESHAPE_OF_FAILING,
    DECLARED_SIZES,
    SIZES_OF_ONE_NAME,
    CAST_OF_SIZES,
    QUOTIENT_OF_ONE,
    GATHER_OF_RANGE,
    SLICE_BACKWARDS,
    SQUEEZE_OF_NO_AXES,
    WHERE_OF_FLOATS,
    SUM_IN_FLOATS,
    DIVISION_THAT_STOPS,
    LOW_HALVES_AS_SIGNED,
)
"""All rows, those of rewrites first."""

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
    names: set[str] = set()
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
    DECLARED_SIZES.avoid(has_other_rank, name=name)
    for declared_size, size in zip(declared, sizes, strict=True):
        if isinstance(declared_size, int):
            is_other = declared_size != size
            DECLARED_SIZES.avoid(is_other, name=name)
        elif declared_size:
            # The first size of a name decides; without a name any size will do.
            first_size = run.names.setdefault(declared_size, size)
            is_other = first_size != size
            SIZES_OF_ONE_NAME.avoid(is_other, name=name)
