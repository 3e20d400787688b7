"""The colours of an audit on a terminal: what is wrong is red, what is proved green."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from onnxgather.core.output.result_states import STATES, State, in_colour

RED = "1;31"
GREEN = "32"
YELLOW = "33"
BOLD = "1"
DIM = "2"

OF_LABELS = {
    "NEW": RED,
    "INVALID": RED,
    "OUT OF RANGE": RED,
    "REFUSED": RED,
    "not proved": YELLOW,
    "proved if": YELLOW,
    "proved": GREEN,
}
"""The colour of the label at the beginning of a line. Other labels are dim."""

_LABEL = re.compile(r"(?P<blanks> *)(?P<label>[A-Za-z]+(?: [A-Za-z]+)*)(?=  )")
"""The first words of a line, if at least two blanks follow."""


def coloured(lines: Sequence[str], verdict: State) -> Iterator[str]:
    """Yield the lines of an audit with the colours for a terminal.

    Args:
        lines: The lines, without characters that a terminal obeys. The first is the
            verdict.
        verdict: The state of a result that has the colour of the verdict.
    """
    for number, line in enumerate(lines):
        label = _LABEL.match(line)
        if number == 0:
            yield in_colour(line, f"{BOLD};{STATES[verdict].colour}")
        elif label is None:
            yield line
        else:
            words = label["label"]
            word_in_colour = in_colour(words, OF_LABELS.get(words, DIM))
            yield f"{label['blanks']}{word_in_colour}{line[label.end() :]}"
