"""Exceptions of a caller that are raised in the midst of a public call, as a handler of
a signal raises them."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec
import numpy as np

import onnxgather as og

_PACKAGE = str(Path(og.__file__).parent) + os.sep

_WITH_PROGRAMS = ("shared_worker", "_shared")
"""The caches that hold programs, which would go on without them."""

Call = Callable[[], object]


class OwnLimitError(Exception):
    """An exception that no library knows."""


FOREIGN = (OwnLimitError, TimeoutError)
"""Exceptions of a caller. TimeoutError is an OSError."""


def plain(value: object) -> object:
    """Return what a call returned as values that `==` compares."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return array.dtype.name, array.shape, array.tobytes()
    if hasattr(value, "SerializeToString"):
        return cast("Any", value).SerializeToString(deterministic=True)
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return [type(value), *(plain(getattr(value, each.name)) for each in fields)]
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return [(key, plain(item)) for key, item in items]
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[object]", value)]
    return value


def forget() -> None:
    """Empty the caches of the package, so that a call fills them again."""
    for wrapper in _caches():
        wrapper.cache_clear()


@functools.cache
def _caches() -> list[Any]:
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, functools._lru_cache_wrapper)  # pyright: ignore[reportPrivateUsage]
        and each.__module__.startswith("onnxgather")
        and each.__name__ not in _WITH_PROGRAMS
    ]


class _Moments:
    """The places in the package where Python runs the handlers of signals.

    They are the start of each function and the return of each function of C. The
    handlers also run in loops, which no profiler sees.

    Args:
        moment: The number of the moment at which an exception is raised.
        foreign: The exception; None if the moments are counted alone.
    """

    def __init__(self, moment: int = -1, foreign: Exception | None = None) -> None:
        self.count = 0
        self.first: list[int] = []
        """The first moment at each place."""
        self.place = ""
        """Where the exception was raised; empty if it was not."""
        self._moment = moment
        self._foreign = foreign
        self._places = set[tuple[object, int]]()

    def __call__(self, frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event not in ("call", "c_return") or not code.co_filename.startswith(
            _PACKAGE
        ):
            return
        moment = self.count
        self.count += 1
        if self._foreign is None:
            place = (code, frame.f_lasti)
            if place not in self._places:
                self._places.add(place)
                self.first.append(moment)
        elif moment == self._moment:
            sys.setprofile(None)
            self.place = f"{code.co_filename}:{frame.f_lineno} {code.co_name}"
            raise self._foreign


@dataclass
class Outcomes:
    """What became of exceptions."""

    arrived: int = 0
    """How many arrived as themselves."""
    in_destructors: list[str] = field(default_factory=list[str])
    """The places of those that `sys.unraisablehook` reported."""
    in_libraries: list[str] = field(default_factory=list[str])
    """The places of those that a library lost, which the package does not see."""
    too_late: int = 0
    """How many moments were not reached."""
    faults: list[str] = field(default_factory=list[str])
    """What is wrong, one sentence each."""

    def __str__(self) -> str:
        return (
            f"{self.arrived} arrived, {len(self.in_destructors)} in destructors"
            f" {self.in_destructors}, {len(self.in_libraries)} in libraries"
            f" {self.in_libraries}, {self.too_late} too late, {len(self.faults)} lost"
        )


@contextmanager
def unraisable() -> Generator[list[object]]:
    """Keep the exceptions of destructors."""
    found: list[object] = []

    def keep(reported: Any) -> None:
        found.append(reported.exc_value)

    before = sys.unraisablehook
    sys.unraisablehook = keep
    try:
        with warnings.catch_warnings():
            # A file that an exception dropped is closed by its destructor.
            warnings.simplefilter("ignore", ResourceWarning)
            yield found
    finally:
        sys.unraisablehook = before


def counted(call: Call) -> _Moments:
    """Return the moments of a call."""
    moments = _Moments()
    sys.setprofile(moments)
    try:
        call()
    finally:
        sys.setprofile(None)
    return moments


def raised_at(call: Call, moment: int, foreign: Exception) -> tuple[object, str]:
    """Raise at a moment; return the exception of the call, and the place."""
    moments = _Moments(moment, foreign)
    caught: object = None
    sys.setprofile(moments)
    try:
        call()
    except Exception as error:
        caught = error
    finally:
        sys.setprofile(None)
    return caught, moments.place


def _raised_after(call: Call, seconds: float, foreign: Exception) -> tuple[object, str]:
    """Raise by a timer, in one of several calls; return as `raised_at`."""
    places: list[str] = []

    def limit(_: int, frame: Any) -> None:
        code = frame.f_code
        places.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
        raise foreign

    caught: object = None
    before = signal.signal(signal.SIGALRM, limit)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while not places:
            call()
    except Exception as error:
        caught = error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return caught, "".join(places[:1])


class Interrupted:
    """A public call into whose midst exceptions are raised.

    Args:
        name: How the call is told.
        call: The call.
    """

    def __init__(self, name: str, call: Call) -> None:
        self.outcomes = Outcomes()
        self._name = name
        self._call = call
        self._right = plain(call())
        forget()
        self._cold = counted(call)
        self._warm = counted(call)

    def try_moments(self, tries: int, seed: int) -> None:
        """Raise exceptions at as many moments, half of them with empty caches."""
        random = Random(seed)
        most = self.outcomes.too_late + tries
        done = 0
        while done < tries and self.outcomes.too_late <= most:
            is_cold = random.random() < 0.5
            moments = self._cold if is_cold else self._warm
            # Else most would be in a few loops.
            if random.random() < 0.7:
                moment = random.choice(moments.first)
            else:
                moment = random.randrange(moments.count)
            if is_cold:
                forget()
            foreign = FOREIGN[done % len(FOREIGN)]("the caller's own limit")
            done += self._try(raised_at, moment, foreign)

    def try_timers(self, tries: int, seed: int) -> None:
        """Raise exceptions by a timer as often."""
        random = Random(seed)
        start = time.perf_counter()
        self._call()
        longest = time.perf_counter() - start
        for number in range(tries):
            foreign = FOREIGN[number % len(FOREIGN)]("the caller's own limit")
            self._try(_raised_after, random.uniform(1e-6, longest), foreign)

    def _try(
        self,
        raised: Callable[[Call, Any, Exception], tuple[object, str]],
        when: float,
        foreign: Exception,
    ) -> bool:
        """Raise an exception, and call again without it; return whether it came."""
        with unraisable() as in_destructors:
            caught, place = raised(self._call, when, foreign)
        where = f"{self._name}: {type(foreign).__name__} at {place}"
        outcomes = self.outcomes
        if not place:
            outcomes.too_late += 1
        elif caught is foreign:
            outcomes.arrived += 1
        elif foreign in in_destructors:
            outcomes.in_destructors.append(place)
        # Case: Python's own, such as os.path.exists, which catches each OSError.
        elif not place.startswith(_PACKAGE) and (
            isinstance(foreign, OSError) or not isinstance(caught, og.OnnxGatherError)
        ):
            outcomes.in_libraries.append(place)
        else:
            outcomes.faults.append(f"{where} became {caught!r}")
        try:
            again = plain(self._call())
        except Exception as error:
            outcomes.faults.append(f"{where}: the next call raised {error!r}")
        else:
            if again != self._right:
                outcomes.faults.append(f"{where}: the next call returned {again!r}")
        return bool(place)
