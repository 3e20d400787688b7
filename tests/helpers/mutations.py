"""Mutated inputs: each must end in an exit code or an OnnxGatherError, in time and
without a trace.

    python tests/helpers/mutations.py --count 100000 [--kind KIND] [--seed S] [--jobs 2]
    python tests/helpers/mutations.py --count 200000 --kind names

The second line calls each public name with so many arguments, most of which are wrong.
An input is made of its kind and its seed alone. A finding is printed with both, with
the command that shows it again, and with the input. The rules are those of `command`,
`refused` and `attempt`. The inputs run in processes of their own, so that a crash is a
finding, too.
"""

from __future__ import annotations

import argparse
import enum
import faulthandler
import inspect
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from hashlib import sha256
from io import BytesIO
from itertools import chain, islice, repeat
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import click
import mutants
import numpy as np
import onnx
import public_names
from click.testing import CliRunner
from mutants import mutated_bytes, mutated_json, mutated_model
from random_networks import graph

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.corpus import built_in_cases
from onnxgather.checking.corpus import exported as exported_cases
from onnxgather.checking.corpus.export import export
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.report import as_lines, html, junit
from onnxgather.checking.results import Report
from onnxgather.checking.run import check_cases
from onnxgather.cli import commands, sources
from onnxgather.cli import main as onnxgather_main
from onnxgather.cli.commands import find_command
from onnxgather.cli.unforeseen import UnforeseenError
from onnxgather.core.checks import shown
from onnxgather.core.errors import LONGEST_LINE, OnnxGatherError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere import child
from onnxgather.core.execution.elsewhere import worker as worker_module
from onnxgather.core.options import MOST_THREADS

SECONDS = 10
"""The longest that an input may take."""

GROWTH = 2**31
"""The most bytes of address space that the inputs of one process may take."""

ROOM = 300 * 2**20
"""The most bytes of memory that an input may take beside those before it."""

LONGEST_ERROR = LONGEST_LINE + len("Error: ")
"""The most characters of a line on the standard error."""

SHM = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""A folder in memory, where there is one."""

_TESTS = Path(__file__).parents[1]

PATHS = [
    *(str(_TESTS / "helpers"), str(_TESTS.parent / "scripts")),
    *filter(None, [os.environ.get("PYTHONPATH")]),
]
"""Where the processes of the inputs find modules."""

CHUNK = 5000
"""The most inputs of one process."""

NAMES = "names"
"""All public names that are called, each as often."""

CALLED: dict[str, Any] = {name: getattr(og, name) for name in public_names.CALLED}
"""The public names that are called."""

PARAMETERS = {
    name: [*inspect.signature(one).parameters.values()] for name, one in CALLED.items()
}
"""Their parameters, which take long to find."""

COMMANDS = {name: find_command(name) for name in onnxgather_main.commands}


class BrokenRuleError(Exception):
    """An input broke a rule."""


class Finding(NamedTuple):
    """An input that broke a rule."""

    kind: str
    seed: int
    cause: str
    """One line; the same for inputs that break the same rule at the same line of the
    package."""
    tried: str
    """The input."""


_tried: list[Callable[[], str]] = []
_started: list[str] = []
_odd: list[str] = []
"""Of the input at hand: what was tried, which programs it started, what else it did.
What was tried is put into words for a finding alone, as the words of an array take
longer than most calls."""


def written(name: str, content: bytes) -> str:
    """Write a file of the input at hand and return its name."""
    Path(name).write_bytes(content)
    _tried.append(lambda: f"{name}: {content!r}")
    return name


def command(line: str, *more: str, prints_bytes: bool = False) -> None:
    """Run a command: its exit code must be one of DESIGN's, and what it prints must be
    plain.

    Args:
        line: The words of the command line, with a space between two.
        more: What follows, each as it is.
        prints_bytes: Whether any byte may be printed.
    """
    arguments = [*line.split(), *more]
    _tried.append(lambda: f"onnxgather {arguments}")
    result = CliRunner().invoke(onnxgather_main, arguments, prog_name="onnxgather")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in (0, 1, 2, 3):
        raise BrokenRuleError(f"exit code {result.exit_code}")
    if result.exit_code == 2 and not result.stderr:
        raise BrokenRuleError("exit code 2 without a sentence")
    shown = result.stderr
    if "not enough memory" in shown:
        raise BrokenRuleError(f"more than {GROWTH:,} bytes are taken: {shown.strip()}")
    if "is not defined" in shown or "has no attribute" in shown:
        raise BrokenRuleError(
            f"a mistake of the package is told as one of the input: {shown}"
        )
    longest = max(map(len, result.stderr.split("\n")))
    if longest > LONGEST_ERROR:
        raise BrokenRuleError(f"a sentence has {longest} characters: {shown[:200]}")
    if "--json" in arguments and result.stdout.startswith("{"):
        json.loads(result.stdout)
    if not prints_bytes:
        shown += result.stdout
    for character in shown.replace("\n", "").replace("\t", ""):
        if unicodedata.category(character) in ("Cc", "Cf", "Cs"):
            raise BrokenRuleError(f"U+{ord(character):04X} is printed")


def programs(random: Random) -> None:
    """Put a mutated program to one of the commands that read programs."""
    file = written(
        "program.json", mutated_json(random, random.choice(mutants.PROGRAMS))
    )
    rule = f"--out-of-range={random.choice(mutants.RULES)}"
    names = ["show", "convert", "run", "check", "explain", "repro", "certify"]
    match random.choice(names):
        case "show":
            form = random.choice(["--json", "--target=cpu", "--opset=13"])
            command(f"show {file} {rule} {form}")
        case "convert":
            output = random.choice(["out", "out/a.onnx"])
            command(f"convert {file} {rule} -o {output}")
        case "run":
            command(f"run {file} {rule} --output-folder=out", prints_bytes=True)
        case "check":
            reports = random.choice(["--json", "--html=out/a --junit=out/b", ""])
            command(f"check {file} {reports} --timeout=2")
        case "explain":
            at = random.choice(["0", "0,0", "0,0,0", "0,1", "0,0,0,0"])
            form = random.choice(["--json", "--dispatch=1"])
            command(f"explain {file} {rule} --at={at} {form}")
        case "certify":
            command(
                f"certify {file} {rule} --timeout=1 {random.choice(['--json', ''])}"
            )
        case _:
            command(f"repro {file} {rule} -o out --timeout=2")


def models(random: Random) -> None:
    """Put a mutated model to one of the commands that read models."""
    content, inputs = random.choice([*mutants.MODELS, *mutants.OWN_MODELS])
    content, names = mutated_model(random, content)
    given = ""
    if random.random() < 0.9:
        given = f"--inputs {written('inputs.npz', inputs)}"
    # The name of a node is any text.
    node = f"--node={random.choice(['y', 'y', 'y', *names])}"
    sizes = random.choice(["", "--shape=x=4,3 --shape=i=2,2", "--shape=x=9,3"])
    rule = random.choice(mutants.RULES)
    form = random.choice(["--json", "--all", "--range=i=0:1"])
    options: dict[str, tuple[str, ...]] = {
        f"audit {given} {sizes} {form}": (),
        "certify --timeout=2": (),
        f"check {given} --timeout=2": (node,),
        f"convert {sizes} -o out": (),
        f"explain {given}": (node,),
        f"extract {given or '--inputs=none'} -o out": random.choice(
            [(node,), ("--all",)]
        ),
        f"harden {sizes} -o b.onnx --out-of-range={rule}": (),
        f"repro {given} -o out --timeout=2": (node,),
        f"show {sizes}": random.choice([(node,), ("--json",)]),
    }
    line = random.choice([*options])
    command(line, written("a.onnx", content), *options[line])


def networks(random: Random) -> None:
    """Put a mutated model of many operators to the commands that audit models."""
    match random.choice(["drawn", "drawn", "exported", "small"]):
        case "drawn":
            content = graph(random.randrange(2**32)).model.SerializeToString()
        case "exported":
            content = random.choice(small_networks())
        case _:
            content, _ = random.choice(mutants.MODELS)
    file = written("a.onnx", mutated_model(random, content)[0])
    audit = f"audit {random.choice(['--json', '--all', '--allow-empty'])}"
    rule = random.choice(mutants.RULES)
    harden = f"harden -o b.onnx --out-of-range={rule}"
    line = random.choice([audit] * 6 + ["convert -o out", harden, "show --json"])
    command(f"{line} {file}")


@cache
def small_networks() -> list[bytes]:
    """The exported networks that are audited in a fraction of a second."""
    # Imported late: a script is on the path of the processes of the inputs alone.
    from strength import exported

    models = (model.SerializeToString() for _, model, _ in exported())
    return [content for content in models if len(content) < 100_000]


def reports(random: Random) -> None:
    """Put a mutated report to the commands that read reports; it may start no other
    program."""
    file = written("report.json", mutated_json(random, mutants.report()))
    if "report" in COMMANDS and random.random() < 0.5:
        both = [file, written("b", mutants.report())]
        command("report merge", *random.sample(both, 2))
    else:
        case = random.choice(["", "--case=gather/a", "--case=gather/b --lane=cpu"])
        command(f"repro {file} {case} -o out --timeout=2")
    if other := {*_started} - {sys.executable}:
        raise BrokenRuleError(f"a report starts {other}")


def arrays(random: Random) -> None:
    """Read a mutated .npz or .npy file: the inputs of a model, or a resource of a
    program."""
    if random.random() < 0.5:
        model, inputs = random.choice(mutants.MODELS)
        given = written("inputs.npz", mutated_bytes(random, inputs))
        file = written("a.onnx", model)
        words = ["repro --node=y -o out --timeout=2", "audit", "explain --node=y"]
        command(f"{random.choice(words)} {file} --inputs {given}")
    else:
        content = mutated_bytes(random, random.choice(mutants.ARRAYS))
        name = random.choice(["a.npy", "a.bin"])
        written(name, content)
        reading = mutants.WITH_NPY if name == "a.npy" else mutants.WITH_BYTES
        command(f"run {written('program.json', reading)}", prints_bytes=True)


@cache
def contract_of(model: bytes) -> bytes:
    """The contract of a model."""
    folder = tempfile.mkdtemp()
    path = Path(folder, "a.onnx")
    path.write_bytes(model)
    CliRunner().invoke(onnxgather_main, ["audit", str(path), f"--contract={path}.json"])
    content = Path(f"{path}.json").read_bytes()
    shutil.rmtree(folder)
    return content


def contracts(random: Random) -> None:
    """Put a mutated contract to the commands that take one."""
    model, _ = random.choice(mutants.MODELS)
    file = written("a.onnx", model)
    given = written("a.contract.json", mutated_json(random, contract_of(model)))
    line = random.choice(["audit --json", "audit", "harden -o b.onnx"])
    command(f"{line} {file} --assume {random.choice([given, '.'])}")


@cache
def two_cases() -> list[Case]:
    """Two cases of the corpus, as all of them take a second."""
    return [*islice(built_in_cases(), 2)]


@cache
def exported() -> dict[str, bytes]:
    """The files of an export of two cases, and of answers to them, by their paths."""
    with tempfile.TemporaryDirectory() as folder:
        cases = two_cases()
        export(cases, "json", f"{folder}/cases")
        for case in cases:
            answer = Path(folder, "answers", case.name)
            answer.mkdir(parents=True)
            np.save(answer / "output.npy", case.data)
        Path(folder, "answers", "runtime.json").write_bytes(mutants.RUNTIME)
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def exports(random: Random) -> None:
    """Have a mutated export, or mutated answers to it, judged."""
    files = dict(exported())
    index = "cases/index.json"
    name = random.choice([*files, index, index, "answers/runtime.json"])
    change = mutated_json if name.endswith(".json") else mutated_bytes
    files[name] = change(random, files[name])
    if name == index and random.random() < 0.8:
        before, after = (
            sha256(content).hexdigest().encode()
            for content in (exported()[index], files[index])
        )
        sums = "cases/SHA256SUMS"
        files[sums] = files[sums].replace(before, after)
    for path, content in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)
    _tried.append(lambda: f"{name}: {files[name]!r}")
    with patch.object(exported_cases, "built_in_cases", two_cases):
        command(f"judge cases answers {random.choice(['--json', ''])}")


def known(random: Random) -> None:
    """Check a program with a mutated file of known differences, where the command takes
    one."""
    if any("--known" in option.opts for option in COMMANDS["check"].params):
        file = written("known.json", mutated_json(random, mutants.KNOWN))
        program = written("program.json", mutants.PROGRAMS[0])
        command(f"check {program} --known {file} --timeout=2")


def answers(random: Random) -> None:
    """Have a lane read mutated answers, and report what it makes of them."""
    case = DescriptorCase("case", *mutants.GATHER, random.choice(mutants.RULES))
    if random.random() < 0.5:
        Path("run-host").touch()
        good = [runtime.MAGIC, mutants.INFO, *[mutants.VERDICT] * 2]
        (lane,) = open_lanes(["directml-dll"], {"directml-dll": "."})
    else:
        about, answered = mutants.ABOUT, mutants.ANSWER
        good = [runtime.MAGIC, about, answered, about, answered, answered]
        (lane,) = open_lanes(["cpu"])
    for k in random.sample(range(len(good)), random.choice([1, 1, 2])):
        good[k] = mutants.mutated_frame(random, good[k])
    _tried.append(lambda: f"answers of {lane.name}: {good!r}")
    with canned(b"".join(good)), closing(lane):
        info = lane.start()
        done = list(check_cases([case], [lane], [info], ()))
    report = Report("0", "now", "here", (info,), done)
    for render_one in (as_lines, junit, html):
        render_one(report)


@contextmanager
def canned(output: bytes) -> Generator[None]:
    """Let every program that a lane starts write this output and end."""
    stream = BytesIO(output)
    program = SimpleNamespace(is_running=lambda: True, kill=bool, printed=bytes)
    program.end = lambda: (0, b"")
    reads = chain([child.read_greeting], repeat(runtime.read_frame))

    def answer(_request: bytes, _deadline: float) -> bytes | None:
        return next(reads)(stream)

    def start(*_: object) -> Any:
        program.answer = answer
        return program

    with patch.object(child, "StartedProgram", start):
        yield


def calls(random: Random, called: str = "") -> None:
    """Call something public with some arguments of other types, values or names."""
    called = called or random.choice([*CALLED])
    function, own = CALLED[called], PARAMETERS[called]
    own = own[:1] if isinstance(function, enum.EnumType) else own
    needed = [
        one.name for one in own if one.default is one.empty or random.random() < 0.5
    ]
    arguments = {
        name: random.choice(mutants.RIGHT.get(name, [None])) for name in needed
    }
    if called in ("reference", "run") and random.random() < 0.5:
        arguments |= dict(zip(("desc", "data", "indices"), mutants.GATHER, strict=True))
    # a copy, as add_to changes the model
    if isinstance(model := arguments.get("model"), onnx.ModelProto):
        arguments["model"] = onnx.ModelProto.FromString(model.SerializeToString())
    for name in random.sample(
        [*arguments], min(len(arguments), random.choice([1, 1, 2]))
    ):
        arguments[name] = mutants.other_value(random, arguments[name])
    if isinstance(arguments.get("timeout"), int | float) and arguments["timeout"] > 1:
        arguments["timeout"] = 1  # as it may be taken
    if (
        isinstance(threads := arguments.get("threads"), int)
        and 9 < threads <= MOST_THREADS
    ):
        arguments["threads"] = (
            9  # as so many of ONNX Runtime take seconds, and all of GROWTH
        )
    if random.random() < 0.02:
        name = random.choice([*arguments, "x"])
        arguments[f"{name}s"] = arguments.pop(name, 1)
    _tried.append(
        lambda: f"{function} of { {k: shown(v) for k, v in arguments.items()} }"
    )
    found: Any = None
    try:
        found = function(**arguments)
        if isinstance(found, og.Gather | og.Session):
            given = [mutants.other_value(random, one) for one in mutants.GATHER[1:]]
            _tried.append(lambda: f"then of {[*map(shown, given)]}")
            (found if isinstance(found, og.Gather) else found.run)(
                *given[: random.randrange(3)]
            )
        said = repr(found)
    except og.OnnxGatherError as error:
        said = str(error)
        if len(said) > LONGEST_LINE:
            raise BrokenRuleError(f"a message has {len(said)} characters") from error
    except TypeError as error:  # Case: a class has no such argument.
        if not re.search(
            "[Uu]nexpected|[Mm]issing .*required|takes .* positional|has no argument",
            str(error),
        ):
            raise
        said = ""
    except (RuntimeError, ValueError):
        # Enum compares a value, which raises what it raises
        if not isinstance(function, enum.EnumType):
            raise
        said = ""
    if not said.isprintable() and not isinstance(
        found, np.ndarray | onnx.ModelProto | list
    ):
        raise BrokenRuleError(f"{said!r} is said")
    is_plain = (
        called in ("reference", "run") and arguments.get("desc") is mutants.GATHER[0]
    )
    if is_plain and found is not None:
        found = cast("Any", found)
        plain = og.reference(*mutants.GATHER, arguments.get("out_of_range", "clamp"))
        if found.tobytes() != plain.tobytes() or type(found) is not np.ndarray:
            raise BrokenRuleError("other bytes than of plain arrays")


def lines(random: Random) -> None:
    """Call a command with a list of its arguments and options and of values of any
    kind."""
    program = written("program.json", random.choice(mutants.PROGRAMS))
    values = ["", "out", "program.json", "-", "0", "1", "0,0", "cpu", "nope", "zero"]
    values.append("cpu=nope")
    # A command line holds what is encoded as a file's name, without NUL.
    hostile = [text.encode("utf-8", "ignore") for text in mutants.TEXTS]
    values += [program] * 5 + [
        os.fsdecode(text.replace(b"\0", b"\xff")) for text in hostile
    ]
    path: list[str] = []
    at: click.Command = onnxgather_main
    while isinstance(at, click.Group):
        commands = COMMANDS if at is onnxgather_main else at.commands
        path.append(random.choice([*commands] * 3 + values))
        at = commands.get(path[-1], click.Command("none"))
    for parameter in random.sample(at.params, random.randrange(len(at.params) + 1)):
        path += (
            [random.choice(parameter.opts)]
            if isinstance(parameter, click.Option)
            else []
        )
        choices = getattr(parameter.type, "choices", values)
        path += (
            [random.choice([*choices, *values])]
            if not getattr(parameter, "is_flag", 0)
            else []
        )
    if (
        not {"--corpus", "--random", "export"}.intersection(path)
        or random.random() < 0.01
    ):
        command("", *path, prints_bytes="run" in path or "-" in path)


_DOCUMENTS = (reports, known, contracts, exports)
_KINDS = (programs, models, networks, *_DOCUMENTS, arrays, answers, calls, lines)
KINDS: dict[str, Callable[[Random], None]] = {one.__name__: one for one in _KINDS}
MIXED = "mixed"
"""Each input of any kind."""


def _peak() -> int:
    """Return the most bytes of memory that this process has taken; 0 if nobody says.

    What `resource` says begins with those of the program that started this one.
    """
    with suppress(FileNotFoundError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        (most,) = re.findall("VmHWM:.*?([0-9]+)", status)
        return 2**10 * int(most)
    return 0


def attempt(asked: str, seed: int) -> Finding | None:
    """Try an input in the current folder, which is empty before and after."""
    for one in (_tried, _started, _odd):
        one.clear()
    cause, random = None, Random(f"{asked} {seed}")
    kind = random.choice([*KINDS]) if asked == MIXED else asked
    os.mkfifo("pipe")  # to read it would take forever
    before = _peak()
    try:
        KINDS[kind](random) if kind in KINDS else calls(random, kind)
        # a command line may ask for other hidden files
        hidden = ".onnxgather" if kind == "lines" else "."
        names = (
            Path(at, name) for at, *below in os.walk(".") for name in chain(*below)
        )
        left = [str(path) for path in names if path.name.startswith(hidden)]
        # .ses is ONNX Runtime's
        left += {*os.listdir(tempfile.gettempdir())} - {".ses"}
        if left or _odd:
            raise BrokenRuleError(f"leaves {left}" if left else _odd[0])
        taken = _peak() - before
        if taken > ROOM:
            raise BrokenRuleError(f"takes {taken:,} bytes")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            f"{f.filename}:{f.lineno}: " for f in frames if "/onnxgather/" in f.filename
        ]
        cause = own[-1] if own else ""
        cause += traceback.format_exception_only(error)[-1].strip()
    finally:
        for entry in [*os.scandir(), *os.scandir(tempfile.gettempdir())]:
            is_folder = entry.is_dir(follow_symlinks=False)
            shutil.rmtree(entry.path) if is_folder else os.unlink(entry.path)
    if cause is None:
        return None
    return Finding(asked, seed, cause, "\n".join(tell() for tell in _tried))


def serve(kind: str, first: int, last: int) -> None:
    """Try inputs in this process; print each finding as a line of JSON.

    The file `../seed` holds the seed of the input at hand. An input that takes too long
    ends the process with SIGALRM, and the standard error says where.
    """
    share_workers()
    watch()
    warnings.simplefilter("error")
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGALRM, all_threads=False, chain=True)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf(
        "SC_PAGE_SIZE"
    )
    resource.setrlimit(resource.RLIMIT_AS, (size + GROWTH, resource.RLIM_INFINITY))
    with open("../seed", "wb", buffering=0) as at:
        for seed in range(first, last):
            os.pwrite(at.fileno(), str(seed).encode(), 0)
            signal.alarm(SECONDS)
            finding = attempt(kind, seed)
            if finding is not None:
                print(json.dumps(finding), flush=True)
    signal.alarm(0)


def share_workers() -> None:
    """Let all lanes on a provider have one worker, as to start one takes longest."""
    worker: Any = worker_module.Worker
    make, shared, program = worker.__init__, dict[str, Any](), child.StartedProgram

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        if child.StartedProgram is program:  # not where the answers are canned
            self.__dict__ = shared.setdefault(str((arguments, named)), self.__dict__)

    worker.__init__ = init
    worker.close = worker.__repr__  # which does nothing


def watch() -> None:
    """Notice the programs that are started, files written elsewhere, errors in
    finalizers, and exceptions that nothing foresees."""
    commands.say_where = sources.say_where = raise_unforeseen
    root = os.path.realpath("..")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            _started.append(str(arguments[0]))
        elif event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            path = (
                os.path.realpath(arguments[0])
                if not isinstance(arguments[0], int)
                else root
            )
            if not path.startswith((root, "/dev/", "/proc/")):
                _odd.append(f"writes {path}")

    sys.addaudithook(hook)

    def unraisable(error: Any) -> None:
        _odd.append(f"ignores {error.exc_value!r}")

    sys.unraisablehook = unraisable


def raise_unforeseen(error: OnnxGatherError) -> None:
    """Raise what nothing foresees again, in place of the line of the command."""
    if isinstance(error, UnforeseenError) and error.__cause__:
        raise error.__cause__


def examine(kind: str, seeds: range, prelude: str = "") -> list[Finding]:
    """Try inputs in a process of their own, and in another after one that crashes.

    An input that takes too long is tried again, and is a finding where it does so
    twice.

    Args:
        kind: The kind.
        seeds: The seeds.
        prelude: Python that runs before.
    """
    findings, late = list[Finding](), -1
    code = (
        f"{prelude}\nimport sys, mutations\nmutations.serve({kind!r}, *map(int,"
        " sys.argv[1:]))"
    )
    while seeds:
        with tempfile.TemporaryDirectory(prefix="mutations.", dir=SHM) as root:
            for name in ("in", "tmp"):
                Path(root, name).mkdir()
            here = {"PYTHONPATH": os.pathsep.join(PATHS), "TMPDIR": f"{root}/tmp"}
            here |= {
                "XDG_CACHE_HOME": root,
                "OPENBLAS_NUM_THREADS": "1",
                "MALLOC_ARENA_MAX": "1",
            }
            done = subprocess.run(
                [sys.executable, "-B", "-c", code, str(seeds.start), str(seeds.stop)],
                cwd=f"{root}/in",
                env={**os.environ, **here},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                encoding="utf-8",
                errors="replace",
            )
            findings += [
                Finding(*json.loads(line)) for line in done.stdout.splitlines()
            ]
            if done.returncode == 0:
                break
            seed = int(Path(root, "seed").read_text() or seeds.start)
        if done.returncode == -signal.SIGALRM and seed != late:
            # other programs may have taken the time
            late = seed
            seeds = range(seed, seeds.stop)
            continue
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else "exit"
        at = [
            line.strip() for line in done.stderr.splitlines() if "/onnxgather/" in line
        ]
        cause = f"{how} {(at or [done.stderr[-200:]])[0]}"
        findings.append(Finding(kind, seed, cause, "see the seed"))
        seeds = range(seed + 1, seeds.stop)
    return findings


def main() -> int:
    """Try inputs of one or all kinds; print the findings, and how many inputs were
    tried."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument(
        "--kind", choices=[*KINDS, MIXED, NAMES, *CALLED], action="append"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    findings = 0
    asked_for = asked.kind or KINDS
    for kind in CALLED if NAMES in asked_for else asked_for:
        start, causes = time.monotonic(), Counter[str]()
        end = asked.seed + asked.count
        # most calls end before a process starts
        step = 4 * CHUNK if kind in CALLED else CHUNK
        chunks = [range(k, min(k + step, end)) for k in range(asked.seed, end, step)]
        with ThreadPoolExecutor(asked.jobs) as pool:
            for found in pool.map(partial(examine, kind), chunks):
                for finding in found:
                    causes[finding.cause] += 1
                    if causes[finding.cause] <= 1:
                        print(
                            f"{kind} {finding.seed}: {finding.cause}\n   "
                            f" {finding.tried[:2000]}"
                        )
                        own = f"--kind {kind} --seed {finding.seed} --count 1"
                        print(
                            f"    python tests/helpers/mutations.py {own}", flush=True
                        )
        seconds = time.monotonic() - start
        print(
            f"{kind}: {asked.count:,} inputs, {asked.count / seconds:.0f} a second, ",
            end="",
        )
        print(f"{causes.total()} findings of {len(causes)} causes", flush=True)
        for cause, count in causes.most_common():
            print(f"    {count} x {cause}")
        findings += causes.total()
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
