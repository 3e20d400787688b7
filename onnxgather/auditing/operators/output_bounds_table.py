"""What the tables of bounds share: how a function is entered for its operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnxgather.auditing.algebra.bounds import INTEGERS, Bounds, broadcast
from onnxgather.auditing.operators.calls import Call

EXACT = 2**53
"""Sums of integers up to it are exact in spite of `quirks.SUM_IN_FLOATS`."""

LARGEST_SIZE = INTEGERS["INT64"][1]
"""The bound of a size that is not known."""

SKIPPED = {"Add", "Sub", "Mul", "Div"}
"""Operators that may go where they change nothing, so that two Casts are in a row
(`quirks.CASTS_IN_A_ROW`)."""

Transfer = Callable[[Call], "Bounds | Sequence[Bounds] | None"]
"""A function that bounds the outputs of an operation; None where nothing bounds
them."""


class BoundsTable:
    """A table of operators, with the function that bounds the outputs of each."""

    def __init__(self) -> None:
        self.transfers: dict[str, Transfer] = {}
        """The functions, by operator."""
        self.quiet: set[str] = set()
        """Operators that select elements, which a proof in words does not name."""
        self.of_sizes: set[str] = set()
        """Operators whose bounds come from sizes alone."""

    def computes(
        self,
        *names: str,
        quiet: bool = False,
        broadcasts: bool = False,
        closed: bool = False,
        of_sizes: bool = False,
    ) -> Callable[[Transfer], Transfer]:
        """Return a decorator that enters a function in the table.

        Args:
            *names: The operators.
            quiet: Whether they select elements.
            broadcasts: Whether they broadcast their inputs.
            closed: Whether the function accepts only bounds that are numbers, not open
                sizes.
            of_sizes: Whether the function reads the sizes of its inputs alone.
        """
        # These may leave an element as an earlier Cast wrapped it, for the next Cast.
        keeps_cast = quiet or SKIPPED.issuperset(names)

        def enter(function: Transfer) -> Transfer:
            def transfer(call: Call) -> Bounds | Sequence[Bounds] | None:
                # A broadcast before opset 7 is of another kind.
                if broadcasts and call.attributes.keys() & {"axis", "broadcast"}:
                    return None
                if of_sizes:
                    return function(call)
                inputs = call.inputs
                if closed:
                    inputs = tuple(value and value.closed for value in inputs)
                if not keeps_cast:
                    inputs = tuple(value and value.cast for value in inputs)
                if broadcasts:
                    inputs = broadcast(inputs)
                if inputs != call.inputs:
                    call = replace(call, inputs=inputs)
                return function(call)

            for name in names:
                self.transfers[name] = transfer
            if quiet:
                self.quiet.update(names)
            if of_sizes:
                self.of_sizes.update(names)
            return function

        return enter
