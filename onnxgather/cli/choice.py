"""The choice of some cases by their names, which several commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count, islice
from typing import NamedTuple

import click

from onnxgather.core.checks import number_of, shown_with_suggestion

MOST_COMPARED = 10_000
"""The most names of cases that a wrong name is compared with."""


class Choice(NamedTuple):
    """The options that choose some of the cases by their names."""

    text: str
    """The text that the name of a case must have."""
    name: str | None
    """The name of the only case."""
    shard: tuple[int, int] | None
    """The number of the part of the cases, from 1, and how many parts there are."""

    def fits(self, name: str) -> bool:
        """Return whether the case of a name may be checked."""
        return self.text in name and self.name in (None, name)

    def unfitted(self, all_names: Iterable[str]) -> str:
        """Return the message where no case fits."""
        names = [*islice(all_names, MOST_COMPARED)]
        if self.name is not None:
            return f"no case is named {shown_with_suggestion(self.name, names)}"
        # Only parts of names with as many slashes as the text are like it.
        length = self.text.count("/") + 1
        parts = set[str]()
        for name in names:
            words = name.split("/")
            for start in range(len(words)):
                parts.add("/".join(words[start : start + length]))
        suggestion = shown_with_suggestion(self.text, sorted(parts))
        return f"no case name contains {suggestion}"

    def size(self, all_names: Callable[[], Iterable[str]], total: int) -> int:
        """Return how many cases are chosen.

        Args:
            all_names: Returns the names of all cases.
            total: How many cases there are.

        Raises:
            UsageError: No case fits, or the shard has none of those that fit.
        """
        if self.text or self.name is not None:
            total = sum(map(self.fits, all_names()))
            if not total:
                raise click.UsageError(self.unfitted(all_names()))
        part, parts = self.shard or (1, 1)
        # A part without cases would prove nothing and look as if all were well.
        if part > total > 0:
            cases = number_of(total, "case")
            raise click.UsageError(
                f"the shard {part}/{parts} has no case, as there are {cases} for"
                f" {parts} shards; give at most {total} shards"
            )
        # Of the parts of a shard, the first get a case more.
        return (total + parts - part) // parts

    def chooser(self) -> Callable[[str], bool]:
        """Return a function that says whether a case is chosen.

        It is asked of each case once, in order.
        """
        part, parts = self.shard or (1, 1)
        numbers = count()

        def is_chosen(name: str) -> bool:
            return self.fits(name) and next(numbers) % parts == part - 1

        return is_chosen

    @property
    def shard_text(self) -> str | None:
        """The shard as a report has it, such as `2/8`."""
        if self.shard is None:
            return None
        return "/".join(map(str, self.shard))
