"""The client of DirectML.dll's host: its protocol against a host of our own, and the
real one."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import DATA_4X3 as DATA
from command_line import DESC
from fake_directml import NO_DEVICE, done, failed, fake
from messages import message_of, rows_of
from rings import one_quick_in
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.lanes.directml import (
    Host,
    HostAnswer,
    HostInfo,
    Stage,
    find_host,
    request_for,
    setup_command,
)
from onnxgather.checking.lanes.lane import Answer, AnswerKind
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.runtime import LONGEST_FRAME

ASKED = request_for(DESC)
INDICES = np.array([[2, 7]], np.uint32)


BUFFERS = (DATA.tobytes(), INDICES.tobytes(), b"")


def ask(host: Host) -> HostAnswer:
    """Return the verdict on one small gather."""
    return host.ask(ASKED, BUFFERS)


def program_of(host: Host) -> object:
    """Return the program that runs at the moment."""
    return host._program  # type: ignore[reportPrivateUsage]


def broken_by(host: Host) -> Answer:
    """Return what a lane answers where the host gives no verdict on the small
    gather."""
    with pytest.raises(NoAnswerError) as caught:
        ask(host)
    return Answer.none(caught.value)


NONSENSE = "the host answered what no host answers: "


def broken(reason: str, how: Breakdown, detail: str) -> Answer:
    """Return the answer of a lane that broke down."""
    return Answer(AnswerKind.BROKEN, reason, how=how, detail=detail)


def test_a_host_says_what_it_is() -> None:
    with closing(Host(fake(done()))) as host:
        assert host.info == HostInfo("1.15.4.0", "llvmpipe", "6_4", "10.0")


def test_a_verdict_has_the_output_tensor() -> None:
    with closing(Host(fake(done()))) as host:
        verdict = ask(host)
    assert verdict == HostAnswer(
        "done", 0, np.arange(8, dtype=np.float32).tobytes(), False
    )


def test_written_guard_bytes_are_told() -> None:
    with closing(Host(fake(done(touched=True)))) as host:
        assert ask(host).guards_touched


def test_a_request_holds_the_descriptor_and_its_buffers(tmp_path: Path) -> None:
    desc = descriptor(
        "GATHER_ND1: FLOAT16 2x3 strides 3x1 bytes 16 flags OWNED_BY_DML alignment 32,"
        " INT64 2x1, FLOAT16 1x2, 2, 2, 1"
    )
    data, indices = np.arange(8, dtype=np.float16), np.array([[1], [2]], np.int64)
    kept = tmp_path / "request"
    keep = f"open({str(kept)!r}, 'wb').write(request)"
    with closing(Host(fake(f"{keep}; {done('bytes(4)')}"))) as host:
        asked = request_for(desc)
        buffers = (data.tobytes(), indices.tobytes(), b"\5\6")
        created = host.ask(asked)
        host.ask(asked, buffers)
    header, _, blobs = kept.read_bytes().partition(b"\n")
    assert json.loads(header) == {
        "operator": 140,
        "feature_level": 0x1000,
        "tensors": [
            [2, 1, [2, 3], [3, 1], 16, 32],
            [11, 0, [2, 1], None, 16, 0],
            [2, 0, [1, 2], None, 4, 0],
        ],
        "fields": [2, 2, 1],
        "buffers": [16, 16, 2],
        "bindings": None,
    }
    assert blobs == b"".join(buffers)
    assert created == HostAnswer("done")


def test_with_bindings_the_output_is_the_whole_buffer_of_output_tensor(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "request"
    keep = f"open({str(kept)!r}, 'wb').write(request)"
    with closing(Host(fake(f"{keep}; {done('bytes(48)')}"))) as host:
        verdict = host.ask(
            ASKED, (b"a" * 64, b"b" * 48), bindings=[(0, 16), (0, 0), (1, 16)]
        )
    assert verdict == HostAnswer("done", 0, bytes(48))
    header, _, blobs = kept.read_bytes().partition(b"\n")
    request = json.loads(header)
    assert (request["buffers"], request["bindings"]) == (
        [64, 48],
        [[0, 16], [0, 0], [1, 16]],
    )
    assert blobs == b"a" * 64 + b"b" * 48


@pytest.mark.parametrize("stage", ["CreateOperator", "CompileOperator", "dispatch"])
def test_a_refusal_names_its_call(stage: Stage) -> None:
    with closing(Host(fake(failed(stage, 0x80070057)))) as host:
        assert ask(host) == host.ask(ASKED) == HostAnswer(stage, 0x80070057)


UNANSWERED = """
sys.exit(3)
exited, 3: the host ended with exit code 3

print('host: exception 0xC0000005', file=sys.stderr); sys.exit(3)
exited, 3: the host ended with exit code 3, host: exception 0xC0000005

sys.stdout.buffer.write(b'1234567'); sys.exit()
exited, 0: the host ended with exit code 0

sys.stdout.buffer.write(b'ERROR: no ' * 9); sys.stdout.buffer.flush()
stray, ERROR: n: the host printed where it must answer, ERROR: no ERROR: no
ERROR: no ERROR: no ERROR: no ERROR: no ERROR: no ERROR: no ERROR: no

frame(b'abc')
nonsense, JSON is malformed: invalid character (byte 0):

import os, signal; os.kill(os.getpid(), signal.SIGKILL)
died, SIGKILL: the host died of SIGKILL

answer(b'', stage='create')
nonsense, Invalid enum value 'create' - at `$.stage`:

answer(b'', stage='done', hresult=2**32)
nonsense, Expected `int` <= 4294967295 - at `$.hresult`:

answer(b'', **INFO)
nonsense, Object missing required field `stage`:
"""
"""What a host does in place of an answer; how it broke down, the detail of that, and
the reason, which for nonsense is the detail."""


@pytest.mark.parametrize(("action", "told"), one_quick_in(9, rows_of(UNANSWERED)))
def test_a_host_that_does_not_answer_is_started_anew(
    action: str, told: str, tmp_path: Path
) -> None:
    if "SIGKILL" in action and sys.platform == "win32":
        pytest.skip("no signals")
    how, rest = told.split(", ", 1)
    head, _, reason = rest.partition(": the host")
    detail = head.removesuffix(":")
    reason = f"the host{reason}" if reason else f"{NONSENSE}{detail}"
    expected = broken(reason, Breakdown(how), detail)
    # Misbehaves once: from then on a file says that it did.
    once = tmp_path / "once"
    start = f"import pathlib; once = pathlib.Path({str(once)!r}); greet()"
    action = (
        f"\n    if once.exists():\n        {done()}\n    else:\n        once.touch();"
        f" {action}"
    )
    with closing(Host(fake(action, start))) as host:
        assert broken_by(host) == expected
        assert ask(host).stage == "done"


LATE = broken("the host did not answer within 0.2 s", Breakdown.LATE, "0.2 s")


def test_a_host_that_hangs_is_ended() -> None:
    with closing(Host(fake("time.sleep(60)"), timeout=60)) as host:
        host.timeout = 0.2
        assert broken_by(host) == LATE


def test_a_host_that_reads_nothing_is_ended() -> None:
    start = "greet(); sys.stdin.buffer.read(11); answer(b'', **INFO); time.sleep(60)"
    with closing(Host(fake("pass", start), timeout=60)) as host:
        host.timeout = 0.2
        with pytest.raises(NoAnswerError) as caught:
            host.ask(ASKED, (bytes(1 << 20),) * 3)
    assert Answer.none(caught.value) == LATE


def test_a_host_that_lost_its_device_is_started_anew() -> None:
    with closing(Host(fake(failed("dispatch", 0x887A0005, lost=True)))) as host:
        lost = HostAnswer("dispatch", 0x887A0005, device_lost=True)
        first = program_of(host)
        assert ask(host) == lost
        assert ask(host) == lost
        assert program_of(host) is not first
        assert ask(host) == lost


STARTS = f"""
sys.exit(5)
DirectML.dll cannot run: the host ended with exit code 5

sys.stdout.buffer.write(b'OGDM' * 2**14 + b'?'); sys.stdout.buffer.flush()
DirectML.dll cannot run: the host printed where it must answer, {"OGDM" * 50}

INFO['version'] = 1; greet()
the host answered what no host answers: Expected `str`, got `int` - at `$.version`

{NO_DEVICE}
DirectML.dll cannot run: DMLCreateDevice1 gave 0x8007007E
"""


@pytest.mark.parametrize(("start", "message"), rows_of(STARTS))
def test_a_host_that_does_not_start_is_an_error(start: str, message: str) -> None:
    assert message_of(og.ProviderError, Host, fake("pass", start)) == message


def test_a_command_that_does_not_exist_is_an_error() -> None:
    assert (
        message_of(og.ProviderError, Host, ["/no/such host"])
        == "DirectML.dll cannot run: /no/such host does not start: No such file or"
        " directory"
    )


def test_the_host_is_found_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert find_host() is None
    folder = tmp_path / "onnxgather" / "directml"
    folder.mkdir(parents=True)
    host = folder / ("directml_host.exe" if sys.platform == "win32" else "run-host")
    host.touch()
    assert find_host() == find_host(str(folder)) == [str(host)]


@pytest.mark.skipif(sys.platform == "win32", reason="setup.sh is for Debian")
def test_the_command_that_makes_the_host_is_told() -> None:
    assert setup_command() == "scripts/directml/setup.sh"
    assert setup_command("/my lane") == "scripts/directml/setup.sh '/my lane'"


@pytest.fixture(scope="module")
def directml() -> Iterator[Host]:
    """Yield DirectML.dll itself."""
    command = find_host()
    if command is None:
        pytest.skip(f"no host of DirectML.dll; {setup_command()} makes it")
    with closing(Host(command)) as host:
        yield host


@pytest.mark.slow
def test_directml_says_what_it_is(directml: Host) -> None:
    assert directml.info.version.startswith("1.")
    assert directml.info.feature_level >= "6_0"


@pytest.mark.slow
def test_directml_returns_the_references_bytes(directml: Host) -> None:
    output = np.array([2, 7, 5, 10, 8, 11, 11, 11], np.float32)
    assert ask(directml) == HostAnswer("done", 0, output.tobytes(), False)


def with_sizes(
    data: list[int], indices: list[int], output: list[int]
) -> dict[str, Any]:
    """Return a request for a gather like the small one, with other sizes."""
    tensors: list[list[Any]] = []
    for old, sizes in zip(ASKED["tensors"], (data, indices, output), strict=True):
        tensors.append([old[0], 0, sizes, None, 4 * math.prod(sizes), 0])
    return {**ASKED, "tensors": tensors}


@pytest.mark.slow
def test_directml_refuses_an_invalid_descriptor(directml: Host) -> None:
    assert directml.ask(with_sizes([4, 4], [1, 2], [4, 2])).hresult == 0
    assert directml.ask(with_sizes([5, 3], [1, 2], [4, 2])) == HostAnswer(
        "CreateOperator", 0x80070057
    )
    assert directml.ask(ASKED).stage == "done"


@pytest.mark.slow
def test_directml_lives_on_after_a_descriptor_that_ends_it(directml: Host) -> None:
    # DirectML 1.15.4 ends its program where an index size that should be 1 has no
    # place.
    asked: dict[str, Any] = {**with_sizes([1, 1], [1, 3], [1, 1]), "fields": [1, 0]}
    for tensor in asked["tensors"]:
        tensor[0] = og.TensorDataType.UINT32.directml
    with pytest.raises(NoAnswerError):
        directml.ask(asked)
    assert ask(directml).stage == "done"


def test_a_frame_is_at_most_8_gib() -> None:
    assert LONGEST_FRAME == 8 * 2**30  # protocol.h: count >> 33
