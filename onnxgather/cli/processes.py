"""Work on many items, in several processes, with the results in their order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from onnxgather.cli.sources import Batch
from onnxgather.cli.terminal import Interrupted
from onnxgather.core.checks import number_of
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import reason

if TYPE_CHECKING:
    from concurrent.futures import Future

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def finished(
    batch: Batch,
    jobs: int,
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    noun: str,
) -> dict[_Item, _Result]:
    """Return the results of items, in their order.

    A signal ends the work; then they are the results of the items before it.

    Args:
        batch: It shows the progress, and keeps the errors of items and the signal.
        jobs: How many processes work side by side.
        work: It returns the result of an item.
        items: The items; their texts name them.
        noun: What an item is, such as `model`.
    """
    from concurrent.futures import BrokenExecutor

    done = dict[_Item, _Result]()
    total = len(items)
    try:
        with closing(results(min(jobs, total), work, items)) as calls:
            for number, (item, call) in enumerate(zip(items, calls, strict=True), 1):
                with batch.step(str(item), number, total):
                    try:
                        done[item] = call()
                    except (BrokenExecutor, MemoryError):
                        # The other items may have enough memory.
                        if total == 1:
                            raise
                        raise OnnxGatherError(
                            f"{item}: there is not enough memory, or its process was"
                            " ended"
                        ) from None
                    except OSError as error:
                        raise OnnxGatherError(f"{item}: {reason(error)}") from None
    except Interrupted as stop:
        batch.stop = stop
        with batch.step(""):
            count = f"{len(done):,} of {number_of(total, noun)}"
            raise OnnxGatherError(f"interrupted by {stop.name} after {count}") from None
    return done


def results(
    jobs: int, work: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Generator[Callable[[], _Result]]:
    """Yield a call for each item, in their order, that returns its result.

    With several jobs, as many processes work on the items.
    """
    if jobs < 2:
        for item in items:
            yield partial(work, item)
        return
    with _submitted(jobs, work, items) as futures:
        for item, future in zip(items, futures, strict=True):
            yield partial(_result, future, work, item)


def _result(
    future: Future[_Result], work: Callable[[_Item], _Result], item: _Item
) -> _Result:
    """Return the result of an item."""
    from concurrent.futures import BrokenExecutor

    try:
        return future.result()
    except BrokenExecutor:
        # Another item may have ended the process, so this item gets its own.
        with _submitted(1, work, [item]) as futures:
            return futures[0].result()


@contextmanager
def _submitted(
    jobs: int, work: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Generator[list[Future[_Result]]]:
    """Yield the results to come of items, from processes that end with the block."""
    # Imported late: a command that works on one item needs no other process.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _ignore_interrupts)
    futures: list[Future[_Result]] = []
    try:
        # A process that starts is not interrupted either.
        handler = _ignore_interrupts()
        for item in items:
            futures.append(pool.submit(work, item))
        signal.signal(signal.SIGINT, handler)
        yield futures
    finally:
        # A thread of the pool that still ends would race with the end of the program.
        are_done = all(future.done() for future in futures)
        pool.shutdown(wait=are_done, cancel_futures=True)
        for process in active_children():
            process.terminate()


def _ignore_interrupts() -> Any:
    """Ignore Ctrl-C in this process; return the handler before."""
    # A terminal sends it to all processes, and the process that started them ends.
    return signal.signal(signal.SIGINT, signal.SIG_IGN)
