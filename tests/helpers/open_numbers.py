"""The numbers that open sizes stand for in one run, read from the arrays that the run
made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from onnxgather.auditing.algebra.sizes import AnySize, Size, Symbol, terms_of


def number_of(size: Any, known: Mapping[Symbol, int]) -> Any:
    """The number of a size; None where a symbol in it is not known. Numbers stay."""
    if not isinstance(size, Size):
        return size
    if not size.symbols <= known.keys():
        return None
    return sum(
        count * math.prod(known[symbol] for symbol in monomial)
        for monomial, count in size.terms.items()
    )


class OpenNumbers:
    """The number of each symbol in one run, as far as sizes of arrays tell it."""

    def __init__(self) -> None:
        self._known = dict[Symbol, int]()
        self._facts = list[tuple[str, Size]]()

    def of(self, size: Any) -> Any:
        """The number of a size; None where a symbol in it is not told. Numbers stay."""
        return number_of(size, self._known)

    def meet(self, sizes: Sequence[AnySize | None], shape: Sequence[int]) -> str:
        """Compare the sizes of a value with the shape of its array; "" where they
        fit."""
        if len(sizes) != len(shape):
            return f"{len(shape)} dimensions, told {len(sizes)}"
        pairs = zip(sizes, shape, strict=True)
        return "".join(self._meet(size, n) for size, n in pairs if size is not None)

    def _meet(self, size: AnySize, number: int) -> str:
        rest = terms_of(size - number)
        lone = [m[0] for m in rest if len(m) == 1 and m[0] not in self._known]
        unknown = {symbol for m in rest for symbol in m} - self._known.keys()
        if len(unknown) == 1 and lone and sum(lone[0] in m for m in rest) == 1:
            others = self.of(Size({m: n for m, n in rest.items() if m != (lone[0],)}))
            wrong = self._tell(lone[0], -others, rest[lone[0],])
            if wrong:
                return wrong
        found = self.of(size)
        return (
            "" if found in (None, number) else f"size {size} is {found}, not {number}; "
        )

    def _tell(self, symbol: Symbol, total: int, parts: int) -> str:
        """Keep the number of a symbol; say what is known of it that the number does not
        keep."""
        number, rest = divmod(total, parts)
        if rest or not symbol.low <= number <= symbol.high:
            return (
                f"{symbol.name or '?'} from {symbol.low} to {symbol.high} is"
                f" {total}/{parts}; "
            )
        self._known[symbol] = number
        self._facts += [(symbol.name or "?", fact) for fact in symbol.facts]
        broken = [
            (name, fact) for name, fact in self._facts if (self.of(fact) or 0) < 0
        ]
        return "".join(f"{fact} of {name} is negative; " for name, fact in broken)
