"""Work on many items, in several processes, with the results in their order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

from onnxgather.cli.sources import Batch
from onnxgather.cli.terminal import Interrupted
from onnxgather.core.checks import number_of
from onnxgather.core.errors import OnnxGatherError

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def finished(
    batch: Batch,
    jobs: int,
    work: Callable[[_Item], _Found],
    items: Sequence[_Item],
    noun: str,
) -> dict[_Item, _Found]:
    """The results of items, in their order; of those before a signal, which ends the work.

    Args:
        batch: It shows the progress, and keeps the errors of items and the signal.
        jobs: How many processes work side by side.
        work: What gives the result of an item.
        items: The items; their texts name them.
        noun: What an item is, such as `model`.
    """
    done, total = dict[_Item, _Found](), len(items)
    try:
        with closing(results(min(jobs, total), work, items)) as found:
            for number, (item, result) in enumerate(zip(items, found, strict=True), 1):
                with batch.step(str(item), number, total):
                    try:
                        done[item] = result()
                    except (BrokenExecutor, MemoryError):
                        if total == 1:
                            raise
                        text = "there is not enough memory, or its process was ended"
                        raise OnnxGatherError(f"{item}: {text}") from None
    except KeyboardInterrupt as error:  # a solver tells of SIGINT by itself
        batch.stop = stop = (
            error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT)
        )
        with batch.step(""):
            rule = (
                f"interrupted by {stop.name} after {len(done):,} of"
                f" {number_of(total, noun)}"
            )
            raise OnnxGatherError(rule) from None
    return done


def results(
    jobs: int, work: Callable[[_Item], _Found], items: Sequence[_Item]
) -> Generator[Callable[[], _Found]]:
    """Yield what gives the result of each item, in their order, from so many processes."""
    if jobs < 2:
        yield from (partial(work, item) for item in items)
        return
    with _submitted(jobs, work, items) as futures:
        for item, future in zip(items, futures, strict=True):
            yield partial(_result, future, work, item)


def _result(
    future: Future[_Found], work: Callable[[_Item], _Found], item: _Item
) -> _Found:
    """The result of an item; alone if a process has ended, as another item may have ended it."""
    try:
        return future.result()
    except BrokenExecutor:
        with _submitted(1, work, [item]) as futures:
            return futures[0].result()


@contextmanager
def _submitted(
    jobs: int, work: Callable[[_Item], _Found], items: Sequence[_Item]
) -> Generator[list[Future[_Found]]]:
    """The results to come of items, from processes that end with the block."""
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _ignore_interrupts)
    futures = list[Future[_Found]]()
    try:
        handler = (
            _ignore_interrupts()
        )  # so that a process that starts is not interrupted either
        futures.extend(pool.submit(work, item) for item in items)
        signal.signal(signal.SIGINT, handler)
        yield futures
    finally:
        # A thread of the pool that still ends would race with the end of the program.
        pool.shutdown(wait=all(one.done() for one in futures), cancel_futures=True)
        for process in active_children():
            process.terminate()


def _ignore_interrupts() -> Any:
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that started them."""
    return signal.signal(signal.SIGINT, signal.SIG_IGN)
