"""Runs a host, or goes on with the host that an earlier command left.

    warm.py HOST [ARGUMENT...]

A host under Wine takes seconds to start. So a keeper starts it, stays when the command
ends, and lends the host's pipes to the next command of the same user. This program
stands between a command and the pipes, and tells the keeper of each request and of each
answer. If it ends without an answer, or if an answer was a failure, the keeper ends the
host, as nothing of it may reach the next command. Where there is no host to borrow, as
another command has it, this program becomes HOST.

The keeper and its host end after ONNXGATHER_WARM_SECONDS without a command: 60 if that
is not set, or empty; with 0 a host ends with its command. setup.sh copies this file to
its folder. There `warm` holds the socket and the lock of each keeper while it lives,
for their owner alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

MAGIC = b"\x93gather\n"
"""What a host writes first, as `onnxgather/core/execution/runtime.py` says."""

MOST_REQUESTS = 300
"""After how many requests a host is lent no more, as DirectML keeps memory of each
model."""

MOST_PRINTED = 2**16
"""The most bytes that are told of what a host printed."""

CHUNK = 2**20
"""How many bytes are passed on at once; a frame's line of JSON has no more."""

LONGEST_WAIT = 5
"""The most seconds that a keeper may take to lend its host."""

ASKED, ANSWERED = b"?", b"!"
"""What a borrower tells the keeper: a request, and an answer that was no failure."""


class Loan(NamedTuple):
    """A host that a keeper lends."""

    keeper: socket.socket
    """Tells the host's exit code when the host ends."""
    has_greeted: bool
    requests: IO[bytes]
    answers: IO[bytes]
    printed: IO[bytes]
    """What the host wrote to its standard error."""


def main() -> NoReturn:
    """Serve the standard input from a borrowed host, or become the host."""
    command, seconds = sys.argv[1:], os.environ.get("ONNXGATHER_WARM_SECONDS") or "60"
    # `find_runtime` in `onnxgather/core/execution/elsewhere/hosts.py` has the same
    # rule, for whoever starts it so.
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 5):
        rule = (
            "the variable ONNXGATHER_WARM_SECONDS must be a whole number of seconds up"
            " to 9999"
        )
        sys.exit(f"host: {rule}, got {seconds!a}")
    loan = None
    # only a host of its own would obey WINEDEBUG
    if int(seconds) and "WINEDEBUG" not in os.environ:
        with suppress(OSError):
            loan = borrow(command, int(seconds))
    if loan is not None:
        serve(loan)
    os.execv(command[0], command)


# --- The borrower -------------------------------------------------------------------


def borrow(command: list[str], seconds: int) -> Loan:
    """Borrow a host, from a keeper that is made if there is none.

    Raises:
        OSError: Another command has the host; or the folder or the keeper is another
            user's; or the system does not allow it.
    """
    name = Path(__file__).absolute().parent / "warm"
    name.mkdir(0o700, exist_ok=True)
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    found = os.fstat(folder)
    if (found.st_uid, found.st_mode & 0o777) != (os.geteuid(), 0o700):
        raise PermissionError(name)
    # A path below /proc, as the path of a socket may have few characters.
    path = f"/proc/self/fd/{folder}/{key_of(command)}"
    try:
        keeper = connected(path)
    except (FileNotFoundError, ConnectionRefusedError):
        make_keeper(path, command, seconds)
        keeper = connected(path)
    if not is_own(keeper):
        raise PermissionError(path)
    told, pipes, _, _ = socket.recv_fds(keeper, 1, 3)
    if len(pipes) != 3:
        raise ConnectionError(path)
    keeper.settimeout(None)
    requests, answers, printed = map(os.fdopen, pipes, ("wb", "rb", "r+b"))
    return Loan(keeper, told == ANSWERED, requests, answers, printed)


def key_of(command: list[str]) -> str:
    """Return the name of a host.

    A host that was made anew, or would have other cores, has another name.
    """
    files = [path for path in (__file__, *command) if os.path.isfile(path)]
    times = [os.stat(path).st_mtime_ns for path in files]
    facts = repr((command, times, sorted(os.sched_getaffinity(0))))
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def connected(path: str) -> socket.socket:
    """Return a socket that is connected to a keeper's."""
    keeper = socket.socket(socket.AF_UNIX)
    keeper.settimeout(LONGEST_WAIT)
    keeper.connect(path)
    return keeper


def is_own(peer: socket.socket) -> bool:
    """Whether the program at the other end of a socket is the same user's."""
    found = peer.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return struct.unpack("3i", found)[1] == os.geteuid()


class CommandPipe(io.FileIO):
    """The standard input or output; if the command has closed it, this program ends.

    The keeper then ends the host if it owes an answer.
    """

    def readinto(self, space: WriteableBuffer, /) -> int:
        """Read bytes, at least one."""
        return super().readinto(space) or os._exit(0)

    def write(self, part: ReadableBuffer, /) -> int:
        """Write bytes."""
        try:
            return super().write(part)
        except OSError:
            os._exit(1)


def serve(loan: Loan) -> NoReturn:
    """Pass requests and answers on, one at a time, until one of the ends closes.

    The ends are the input, the output and the host.
    """
    source, target = (
        io.BufferedReader(CommandPipe(0)),
        io.BufferedWriter(CommandPipe(1, "w")),
    )
    is_sound = True
    loan.printed.seek(0)  # the host's position, too
    loan.printed.truncate()
    try:
        start = MAGIC if loan.has_greeted else b""
        target.write(start)
        while not start.endswith(MAGIC):
            byte = read(loan.answers, 1)
            target.write(byte)
            start += byte
        target.flush()
        while True:
            source.peek()  # waits for the start of a request
            loan.keeper.send(ASKED)
            start, rest = pass_start(source, loan.requests)
            finish(loan.requests, rest)
            start, rest = pass_start(loan.answers, target)
            is_sound = is_sound and is_success(start)
            # told before the command has the answer, and may end this program
            if is_sound:
                loan.keeper.send(ANSWERED)
            finish(target, rest)
    except (EOFError, OSError):
        end_as_host(loan)


def read(stream: IO[bytes], count: int) -> bytes:
    """Read so many bytes of a stream; raise EOFError if it ends before."""
    found = stream.read(count)
    if len(found) < count:
        raise EOFError
    return found


def pass_start(source: IO[bytes], target: IO[bytes]) -> tuple[bytes, bytes]:
    """Pass on a frame up to its last bytes; return its start and those bytes.

    The start is that of its content.
    """
    part = read(source, 8)
    left, start = int.from_bytes(part, "little"), b""
    while left:
        target.write(part)
        part = read(source, min(left, CHUNK))
        left, start = left - len(part), start or part
    return start, part


def finish(target: IO[bytes], part: bytes) -> None:
    """Pass the last bytes of a frame on."""
    target.write(part)
    target.flush()


def is_success(answer: bytes) -> bool:
    """Return whether an answer is none of a failure.

    A text in place of an output is an error.
    """
    try:
        told = json.loads(answer.partition(b"\n")[0])
        return "refused" not in told and not any(
            isinstance(x, str) for x in told.get("outputs", ())
        )
    except (ValueError, AttributeError):
        return False


def end_as_host(loan: Loan) -> NoReturn:
    """End as the host ends, with what it printed."""
    code = int(loan.keeper.recv(20) or -signal.SIGKILL)
    loan.printed.seek(max(0, loan.printed.seek(0, os.SEEK_END) - MOST_PRINTED))
    sys.stderr.buffer.write(loan.printed.read())
    sys.stderr.flush()
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


# --- The keeper ---------------------------------------------------------------------


def make_keeper(path: str, command: list[str], seconds: int) -> None:
    """Make a keeper with a socket.

    Raises:
        OSError: Another command makes one now, or the system does not allow it.
    """
    # The keeper holds the lock while it lives, so that nothing takes its socket away.
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # An earlier keeper may have removed this file when it ended; then another command
    # may lock the next file of that name.
    if not os.path.samestat(os.fstat(lock), os.stat(f"{path}.lock")):
        raise BlockingIOError(path)
    with suppress(FileNotFoundError):
        os.unlink(path)  # of a keeper that was killed
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    if os.fork():
        listener.close()
        os.close(lock)
        return
    try:
        os.setsid()  # so that what ends the command leaves the keeper
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        keep(listener, command, seconds)
    finally:
        with suppress(FileNotFoundError):  # if the folder was removed
            os.unlink(path)
            # last, as the next keeper may then have its socket there
            os.unlink(f"{path}.lock")
        os._exit(0)


def keep(listener: socket.socket, command: list[str], seconds: int) -> None:
    """Start a host, lend it to one command after another, and end it."""
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as printed:
        # Nothing of the first command's environment reaches those that follow.
        host = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=printed,
            env={},
            start_new_session=True,
        )
        try:
            lend(host, printed, listener, seconds)
        finally:
            os.killpg(host.pid, signal.SIGKILL)
            host.wait()


def lend(
    host: subprocess.Popen[bytes],
    printed: IO[bytes],
    listener: socket.socket,
    seconds: int,
) -> None:
    """Lend a host until it ends, or is not given back, or no command comes."""
    assert host.stdin is not None
    assert host.stdout is not None
    files = [host.stdin.fileno(), host.stdout.fileno(), printed.fileno()]
    ended, requests, last = os.pidfd_open(host.pid), 0, ASKED
    while requests < MOST_REQUESTS:
        if select.select([listener, ended], [], [], seconds)[0] != [listener]:
            return
        borrower, _ = listener.accept()
        with borrower:
            if not is_own(borrower):
                continue
            socket.send_fds(borrower, [last], files)
            while True:
                ready = select.select([listener, borrower, ended], [], [])[0]
                if ended in ready:
                    borrower.send(b"%d" % host.wait())
                    return
                # first, as it may have gone before the next one came
                if borrower in ready:
                    told = borrower.recv(CHUNK)
                    if not told:
                        break
                    requests += told.count(ASKED)
                    last = told[-1:]
                elif listener in ready:
                    listener.accept()[0].close()
        if last == ASKED or select.select([host.stdout], [], [], 0)[0]:
            return


if __name__ == "__main__":
    main()
