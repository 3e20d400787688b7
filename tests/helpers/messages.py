"""The messages of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import pytest

P = ParamSpec("P")


def message_of(
    kind: type[Exception],
    call: Callable[P, object],
    *arguments: P.args,
    **more: P.kwargs,
) -> str:
    """Return the message of the error of this kind that a call must end with."""
    with pytest.raises(kind) as caught:
        call(*arguments, **more)
    return str(caught.value)
