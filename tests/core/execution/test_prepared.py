"""Prepared gathers: with the native kernels and without, one thread or several, the
reference."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from array import array as python_array
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnxruntime
import pytest
from agreement import POLICIES, same
from corpus_cases import descriptor_cases
from dlpack_arrays import Exported
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import message_of
from rings import but_slow, by_ring, one_quick_in
from short_descriptors import ascending, descriptor
from strategies import Case, cases

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import kernels, prepared
from onnxgather.core.options import OutOfRange

DESC = descriptor("GATHER_ELEMENTS: FLOAT32 4x3, INT64 4x2, FLOAT32 4x2, 1")
DATA = ascending("FLOAT32 4x3")
INDICES = np.array([[2, 0], [1, -1], [0, 0], [1, 9]])
RESULT = og.reference(DESC, DATA, INDICES)

BYTES = descriptor("GATHER: UINT8 6, UINT32 4, UINT8 4, 0, 1")

ROWS = descriptor("GATHER: FLOAT32 1000x300, INT32 1x900, FLOAT32 900x300, 0, 1")
"""A gather that is large enough for threads."""

LEAST = prepared.THREADED_NANOSECONDS

WAYS = [
    pytest.param(
        "kernels",
        marks=pytest.mark.skipif(
            kernels.python_kernels() is None, reason="the native kernels are not built"
        ),
    ),
    "numpy",
]


@pytest.fixture(params=WAYS, autouse=True)
def way(request: pytest.FixtureRequest) -> Generator[str]:
    """Run each test with the kernels and without, and use threads for the smallest
    gathers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "THREADED_NANOSECONDS", 0)
        if request.param == "numpy":
            patch.setenv("ONNXGATHER_NATIVE", "0")
        yield request.param


@pytest.mark.parametrize(("rows", "threads"), [(125, 1), (135, 2)])
def test_threads_are_for_gathers_that_take_long(
    monkeypatch: pytest.MonkeyPatch, rows: int, threads: int
) -> None:
    """Rows of 6 KiB: 125 are guessed to take 48 us, and 135 take 52."""
    monkeypatch.setattr(prepared, "THREADED_NANOSECONDS", LEAST)
    native = Mock()
    monkeypatch.setattr(prepared, "python_kernels", lambda: native)
    desc = descriptor(
        f"GATHER: FLOAT16 9x3072, INT32 1x{rows}, FLOAT16 {rows}x3072, 0, 1"
    )
    og.Gather(desc, threads=2)
    assert native.Gather.call_args.args[-1] == threads


def error_of(call: Callable[[], Any]) -> str:
    """Return the message of the DescriptorError or IndexOutOfRangeError of a call."""
    with pytest.raises((og.DescriptorError, og.IndexOutOfRangeError)) as caught:
        call()
    return str(caught.value)


def refused(*given: Any) -> str:
    """Return the message with which a gather refuses what it is given."""
    return error_of(lambda: og.Gather(DESC)(*given))


def outcome(call: Callable[[], Array]) -> Array | str:
    """Return the output of a gather, or the message of its error."""
    try:
        return call()
    except og.IndexOutOfRangeError as error:
        return str(error)


def check_against_reference(
    desc: og.Descriptor, data: Array, indices: Array, policy: OutOfRange, threads: int
) -> None:
    """Check every way of calling a gather: the bytes of the reference, or its error."""
    wanted = outcome(lambda: og.reference(desc, data, indices, policy))
    gather, outs = og.Gather(desc, policy, threads=threads), list[Array]()

    def out() -> Array:
        outs.append(np.full(desc.output_tensor.array_shape, 77, data.dtype))
        return outs[-1]

    for call in (
        lambda: gather(data, indices),
        lambda: gather(data, indices, out()),
        lambda: og.Gather(desc, policy, indices, threads)(data),
        lambda: og.Gather(desc, policy, indices, threads)(data, out=out()),
    ):
        found = outcome(call)
        if isinstance(wanted, str) or isinstance(found, str):
            assert found == wanted
        else:
            assert same(found, wanted)
    if not isinstance(wanted, str):
        assert all(same(found, wanted) for found in outs)


@pytest.mark.parametrize("threads", [1, 3])
def test_every_case_of_the_corpus_equals_the_reference(threads: int, way: str) -> None:
    if way == "numpy" and threads > 1:
        return  # numpy has no threads
    ran = 0
    step = by_ring(8, 1)
    for case in descriptor_cases()[::step]:
        policy, arrays = case.out_of_range, (case.data, case.indices)
        check_against_reference(case.descriptor, *arrays, policy, threads)
        ran += 1
    assert ran > 1400 // step


@pytest.mark.parametrize("policy", one_quick_in(4, POLICIES))
@pytest.mark.parametrize("operator", og.OPERATORS)
def test_any_descriptor_equals_the_reference(operator: str, policy: OutOfRange) -> None:
    @settings(max_examples=by_ring(3, 7))
    @given(cases(operators=[operator]), st.sampled_from([1, 2, 3, 64]))
    def law(case: Case, threads: int) -> None:
        check_against_reference(case.desc, case.data, case.indices, policy, threads)

    law()


def large(policy: OutOfRange = "clamp", threads: int = 0) -> tuple[Any, ...]:
    """Return a gather that is large enough for threads, its arrays, and its result."""
    rng = np.random.default_rng(5)
    data = rng.random((1000, 300), np.float32)
    indices = rng.integers(-1000, 1000, ROWS.indices_tensor.sizes, np.int32)
    return og.Gather(ROWS, policy, threads=threads), data, indices, data[indices[0]]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("threads", [0, 1, 2, 7, 1000])
def test_any_number_of_threads_gives_the_same_bytes(
    policy: OutOfRange, threads: int
) -> None:
    gather, data, indices, wanted = large(policy, threads)
    assert same(gather(data, indices), wanted)


def test_an_index_out_of_range_is_named_whichever_thread_meets_it() -> None:
    gather, data, indices, _ = large("error", 2)
    indices[0, 899] = 1000
    assert (
        error_of(lambda: gather(data, indices))
        == "IndicesTensor[0,899] must be in [-1000, 1000), got 1000"
    )
    indices[0, 3] = -1001
    assert (
        error_of(lambda: gather(data, indices))
        == "IndicesTensor[0,3] must be in [-1000, 1000), got -1001"
    )


@pytest.mark.skipif(
    sys.platform != "linux", reason="Linux alone pins a program to cores"
)
def test_no_number_of_threads_is_the_number_of_cores_that_the_program_may_run_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native, cores = Mock(), os.sched_getaffinity(0)
    monkeypatch.setattr(prepared, "python_kernels", lambda: native)
    try:
        for count in {1, len(cores)}:
            os.sched_setaffinity(0, sorted(cores)[:count])
            og.Gather(ROWS)
            assert native.Gather.call_args.args[-1] == count
    finally:
        os.sched_setaffinity(0, cores)
    og.Gather(ROWS, threads=3)
    assert native.Gather.call_args.args[-1] == 3


def test_ten_threads_may_call_one_gather() -> None:
    gather, data, indices, _ = large(threads=2)
    wanted = [data[np.roll(indices[0], k)] for k in range(10)]

    def call(k: int) -> bool:
        return all(
            same(gather(data, np.roll(indices, k)), wanted[k]) for _ in range(10)
        )

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(call, range(10)))


def test_indices_that_change_meanwhile_are_never_followed_outside() -> None:
    gather, data, indices, _ = large("error", 2)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            indices[0, 450] = 2**30
            indices[0, 450] = 7

    with ThreadPoolExecutor(1) as pool:
        pool.submit(change)
        try:
            for _ in range(100):
                found = outcome(lambda: gather(data, indices))
                if isinstance(found, str):
                    assert (
                        found == "IndicesTensor[0,450] must be in [-1000, 1000), got"
                        " 1073741824"
                    )
                else:
                    assert same(found[450], data[7])
        finally:
            stop.set()


def test_indices_that_are_right_again_when_they_are_checked_give_the_right_answer(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    gather, indices, check = (
        og.Gather(DESC, "error"),
        INDICES.copy(),
        prepared.check_indices,
    )

    def mended(desc: og.Descriptor, copied: Array) -> None:
        copied[3, 1] = 2  # as another thread may have done before the copy
        check(desc, copied)

    monkeypatch.setattr(prepared, "check_indices", mended)
    assert same(gather(DATA, indices), RESULT)
    assert way == "numpy" or indices[3, 1] == 9


def test_known_indices_are_copied() -> None:
    indices = INDICES.copy()
    gather = og.Gather(DESC, indices=indices)
    indices[...] = 0
    assert same(gather(DATA), RESULT)
    assert gather.indices is not None
    assert not gather.indices.flags.writeable


def test_a_prepared_gather_can_be_pickled() -> None:
    for indices in (None, INDICES):
        gather = pickle.loads(pickle.dumps(og.Gather(DESC, "zero", indices, 2)))
        assert (gather.desc, gather.out_of_range, gather.threads) == (DESC, "zero", 2)
        given = [INDICES] if indices is None else []
        assert same(gather(DATA, *given), og.reference(DESC, DATA, INDICES, "zero"))


def test_arrays_with_a_dtype_of_their_own_run_on_the_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unpickled array has another dtype object, and a copy of it too."""
    if kernels.python_kernels() is None:
        pytest.skip("numpy gathers here")
    expected = og.reference(DESC, DATA, INDICES)

    def refuse(*_: object) -> None:
        raise AssertionError("numpy must not gather")

    monkeypatch.setattr(prepared, "reference", refuse)
    data, indices = unpickled(DATA), unpickled(INDICES)
    assert data.dtype is not DATA.dtype
    strided = unpickled(np.asfortranarray(DATA))
    known: og.Gather = pickle.loads(pickle.dumps(og.Gather(DESC, "clamp", indices)))
    out = unpickled(np.zeros_like(expected))
    gather = og.Gather(DESC)
    assert same(gather(data, indices, out), expected)
    assert same(gather(strided, indices), expected)
    assert same(known(data), expected)
    assert known.indices is not None
    assert known.indices.dtype is INDICES.dtype


def unpickled(array: Array) -> Array:
    return pickle.loads(pickle.dumps(array))


def torch_tensor(array: Array) -> Any:
    """Return the array as a tensor of torch over the same memory."""
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(
        array
    )


def view(array: Any) -> Any:
    """Return Python's view of the memory of an array."""
    return memoryview(array)


OTHERS: dict[str, Callable[[Array], Any]] = {
    "torch": torch_tensor,
    "OrtValue": onnxruntime.OrtValue.ortvalue_from_numpy,
    "DLPack": Exported,
    "memoryview": view,
    "ctypes": np.ctypeslib.as_ctypes,
}


@pytest.mark.parametrize("kind", but_slow(["torch"], OTHERS))
def test_arrays_of_any_kind_are_read(kind: str) -> None:
    make = OTHERS[kind]
    assert same(og.Gather(DESC)(make(DATA), make(INDICES)), RESULT)
    assert same(og.Gather(DESC, indices=make(INDICES))(make(DATA)), RESULT)


@pytest.mark.parametrize("kind", but_slow(["torch"], OTHERS))
def test_memory_of_any_kind_is_written(kind: str) -> None:
    memory = np.zeros_like(RESULT)
    out = OTHERS[kind](memory)
    assert og.Gather(DESC)(DATA, INDICES, out) is out
    assert same(memory, RESULT)


def test_plain_python_arrays_are_read_and_written() -> None:
    out = python_array("B", bytes(4))
    gather = og.Gather(BYTES)
    assert gather(b"abcdef", python_array("I", [5, 0, 9, 1]), out) is out
    assert out.tobytes() == b"fafb"


class Broken:
    """An array of which nothing can be had."""

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("no memory\nat all")

    def __dlpack_device__(self) -> Any:
        return 1, 0


class Nonsense(Broken):
    """An array that hands out something else than it should."""

    def __dlpack__(self, **_: Any) -> Any:
        return "memory"


class Elsewhere:
    """A tensor on another device: numpy gets a copy."""

    def numpy(self) -> Array:
        return DATA.copy()

    def data_ptr(self) -> int:
        return 64


UNREADABLE = ", whose memory numpy cannot read: "
RULE = "InputTensor must be an array of float32 (4, 3), got "


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (view(DATA).cast("B"), "uint8 (48,)"),
        (onnxruntime.OrtValue.ortvalue_from_numpy(DATA > 1), "bool (4, 3)"),
        (Broken(), "Broken" + UNREADABLE + r"no memory\nat all"),
        (Elsewhere(), "Elsewhere" + UNREADABLE + "it is not on the CPU"),
    ],
)
def test_what_is_no_such_array_is_refused_by_name(data: Any, found: str) -> None:
    assert refused(data, INDICES) == RULE + found


def test_an_array_that_hands_out_nonsense_is_refused() -> None:
    message = refused(Nonsense(), INDICES)
    assert message.startswith(RULE + "Nonsense" + UNREADABLE)


@pytest.mark.slow
def test_a_tensor_of_torch_that_numpy_cannot_have_is_refused() -> None:
    tensor = torch_tensor(DATA.copy()).requires_grad_()
    message = refused(tensor, INDICES)
    assert message.startswith(
        RULE + "Tensor" + UNREADABLE + "Can't call numpy() on Tensor"
    )


def test_bool_is_not_uint8() -> None:
    bits, indices = np.zeros(6, np.bool_), np.zeros(4, np.uint32)
    assert (
        error_of(lambda: og.Gather(BYTES)(bits, indices))
        == "InputTensor must be an array of uint8 (6,), got bool (6,)"
    )


def test_an_array_that_was_resized_is_refused() -> None:
    gather, data = og.Gather(DESC), DATA.copy()
    assert same(gather(data, INDICES), RESULT)
    data.resize((2, 3), refcheck=False)
    assert error_of(lambda: gather(data, INDICES)) == RULE + "float32 (2, 3)"


def locked() -> Array:
    """Return an output that cannot be written."""
    out = np.zeros_like(RESULT)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            np.zeros((4, 4), np.float32)[:, ::2],
            "out must be C-contiguous, got strides (16, 8)",
        ),
        (
            np.zeros((2, 4), np.float32).T,
            "out must be C-contiguous, got strides (4, 16)",
        ),
        (locked(), "out must be writable, got a read-only array"),
        (bytes(32), "out must be an array of float32 (4, 2), got uint8 (32,)"),
        (view(RESULT).toreadonly(), "out must be writable, got a read-only array"),
        (
            RESULT.astype(np.float64),
            "out must be an array of float32 (4, 2), got float64 (4, 2)",
        ),
        (
            [[0.0] * 2] * 4,
            (
                "out must be an array of float32 (4, 2), got list, of which"
                " numpy.asarray makes an array"
            ),
        ),
    ],
)
def test_an_output_that_cannot_be_written_is_refused(out: Any, message: str) -> None:
    assert refused(DATA, INDICES, out) == message


def test_an_output_that_is_not_aligned_is_refused() -> None:
    out = np.frombuffer(bytearray(36), np.float32, 8, 2).reshape(4, 2)
    assert (
        refused(DATA, INDICES, out)
        == f"out must be aligned to 4 bytes, got the address {out.ctypes.data:#x}"
    )


def test_an_output_that_shares_a_byte_with_an_input_is_refused() -> None:
    memory = np.zeros(64, np.uint8)
    data, indices = memory[:6], memory[16:32].view(np.uint32)
    gather = og.Gather(BYTES)
    for first, owner in (
        (5, "InputTensor"),
        (13, "IndicesTensor"),
        (31, "IndicesTensor"),
    ):
        assert (
            error_of(
                lambda first=first: gather(data, indices, memory[first : first + 4])
            )
            == f"out must be memory of its own, got memory of {owner}"
        )
    for first in (6, 12, 32):
        out = memory[first : first + 4]
        assert gather(data, indices, out) is out


def test_indices_are_given_once() -> None:
    assert (
        error_of(lambda: og.Gather(DESC, indices=INDICES)(DATA, INDICES))
        == "indices must be left out, as the gather was made with them"
    )
    assert refused(DATA) == "IndicesTensor must be an array of int64 (4, 2), got None"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": -1}, "threads must be an integer from 0 to 1024, got -1"),
        ({"threads": True}, "threads must be an integer from 0 to 1024, got True"),
        (
            {"out_of_range": "wrap"},
            "out_of_range must be one of clamp, error, zero, directml, got 'wrap'",
        ),
        (
            {"indices": INDICES[:2]},
            "IndicesTensor must be an array of int64 (4, 2), got int64 (2, 2)",
        ),
        (
            {"desc": None},
            (
                "desc must be one of GatherDesc, GatherElementsDesc, GatherNDDesc,"
                " GatherND1Desc, got None"
            ),
        ),
    ],
)
def test_options_are_checked(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"desc": DESC, **arguments}
    assert message_of(og.OnnxGatherError, og.Gather, **given) == message


@pytest.mark.slow
def test_calls_leave_no_references_and_no_memory_behind(way: str) -> None:
    count = 100_000 if way == "kernels" else 500
    gather, out = og.Gather(DESC, "error"), np.empty_like(RESULT)
    indices = INDICES % 3
    objects = [DATA, indices, out, gather, np.ndarray]

    def call(times: int) -> None:
        for _ in range(times):
            gather(DATA, indices, out)
        for _ in range(min(times, 500)):
            gather(DATA, indices)
            outcome(lambda: gather(DATA, INDICES, out))
            error_of(lambda: gather(DATA, indices, RESULT.T))
            error_of(lambda: gather(indices, DATA, out))
            og.Gather(DESC, indices=indices)(DATA)

    def held() -> tuple[list[int], int]:
        gc.collect()  # the tracebacks of errors
        return [
            sys.getrefcount(each) for each in objects
        ], tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    call(50)
    references, memory = held()
    call(count)
    assert held()[0] == references
    assert held()[1] - memory < 100_000  # a byte per call
    tracemalloc.stop()


PROGRAM = """
import atexit, os, signal, threading, time
import numpy as np, onnxgather as og
from onnxgather.core.execution import prepared
prepared.THREADED_NANOSECONDS = 0

def gather_of(rows):
    tensors = ("FLOAT32", [1000, 512]), ("INT32", [1, rows]), ("FLOAT32", [rows, 512])
    tensors = [og.TensorDesc(*tensor) for tensor in tensors]
    desc = og.GatherDesc(*tensors, axis=0, index_dimensions=1)
    return og.Gather(desc, threads=8)

data = np.arange(512_000, dtype=np.float32).reshape(1000, 512)
indices = np.arange(640, dtype=np.int32)[None]
gather = gather_of(640)

def right():
    return gather(data, indices).tobytes() == data[:640].tobytes()

def loop():
    while True:
        assert right()

def others():
    return len(os.listdir("/proc/self/task")) - 1

def child(work):
    number = os.fork()
    if not number:
        signal.alarm(20)
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])

assert right()
"""
"""The beginning of the programs that follow: a gather of 20 parts on 8 threads."""


def check_program(text: str) -> None:
    """Run a program that has used threads, and see that it ends well and in silence.

    A warning is an error in it. OpenBLAS has no threads, as they take signals.
    """
    if os.environ.get("ONNXGATHER_NATIVE") == "0":
        return  # numpy has no threads
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", PROGRAM + text]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=variables
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux alone lists the threads of a program"
)


@on_linux
def test_no_more_threads_start_than_a_gather_has_parts() -> None:
    """A part is 32 rows of 2 KiB, and the thread that calls runs parts, too."""
    check_program("""
def started(parts):
    rows = 32 * parts
    gather_of(rows)(data, np.zeros((1, rows), np.int32))
    return others()
found = [child(lambda: started(parts)) for parts in (1, 2, 3, 20)]
assert found == [0, 1, 2, 7], found
""")


@on_linux
def test_no_thread_of_a_gather_is_left_when_a_program_forks() -> None:
    """Else Python warns of the fork from 3.12 on."""
    check_program("""
left = []
os.register_at_fork(after_in_parent=lambda: left.append(others()))
for _ in range(20):
    assert right() and child(lambda: 0) == 0
assert left == [0] * 20, left
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_program_forks_while_its_threads_gather() -> None:
    """Python's own threads are no warning in this test."""
    check_program("""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
threads = [threading.Thread(target=loop, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(10):
    assert child(lambda: not (right() and right())) == 0
    assert right()
os._exit(0)
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no signal masks")
def test_the_threads_of_a_gather_take_no_signals() -> None:
    check_program("""
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
for _ in range(20):
    assert right()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1
""")


@pytest.mark.parametrize(
    "end",
    [
        "atexit.register(right)",
        "for _ in range(3): threading.Thread(target=loop, daemon=True).start()",
        "os._exit(0 if right() else 1)",
    ],
)
def test_a_program_ends_while_the_threads_of_a_gather_wait_or_work(end: str) -> None:
    check_program(end)
