"""What is wrong with the ONNX Runtimes of this machine, and the commands that mend it.

All ONNX Runtime wheels write the same files, and pip lets them overwrite and remove one another.
The doctor reads an environment's files along the search path of its interpreter. It never imports
onnxruntime, as a broken one may crash: workers start each provider and run each gather.
"""

from __future__ import annotations

import csv
import os
import platform
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import msgspec

from onnxgather.cases import smallest_case
from onnxgather.errors import FINDINGS, GOOD, NOT_RUN
from onnxgather.lanes.child import NoAnswerError
from onnxgather.lanes.lane import TIMEOUT, LaneInfo
from onnxgather.lanes.python import ModelLane
from onnxgather.lanes.worker import Worker
from onnxgather.model import VERSION
from onnxgather.parity.judge import judge
from onnxgather.parity.results import Result
from onnxgather.providers import PROVIDERS, Provider, find_provider

MODULE = "onnxruntime"

SYSTEM = {"Darwin": "macOS"}.get(platform.system(), platform.system())
"""This operating system, as `Provider.system` names it."""

WIDTH, LABEL = 100, 20
"""Columns of the text, and of the label beside it; a command keeps its line."""

CASES = [smallest_case(name, "FLOAT32") for name in ("Gather", "GatherElements", "GatherND")]
"""Cases whose model is one node; each has the name of the node's operator."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is wrong."""

    what: str
    """One sentence."""
    command: str | None = None
    """The command that mends it; None where no package does."""


class Wheel(msgspec.Struct, frozen=True):
    """A distribution that owns files of the module onnxruntime."""

    name: str
    version: str
    files: int
    """Files of the module that its RECORD lists, compiled Python apart."""
    missing: int
    """Files among them that are not there."""

    @property
    def pinned(self) -> str:
        """The requirement that this very wheel meets."""
        return f"{self.name}=={self.version}"

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.files} files, {self.missing} missing)"


class Environment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Python environment: its files, and what a worker there says of its ONNX Runtime."""

    python: str
    """The interpreter, as the user named it."""
    versions: dict[str, str] = {}
    """The versions of Python and of the packages that count; empty where nothing answers."""
    pip: bool = True
    """Whether pip is there; uv makes environments without it."""
    folders: tuple[str, ...] = ()
    """Where Python finds the module onnxruntime."""
    empty: bool = False
    """Whether the module holds no code, as uninstalling a wheel leaves it."""
    wheels: tuple[Wheel, ...] = ()
    """The owners of the module; there is none where it is somebody's own build."""
    shared: int = 0
    """Files that several wheels own."""
    providers: tuple[str, ...] = ()
    """The full names that ONNX Runtime lists, which proves nothing."""
    records_nodes: bool = True
    """Whether ONNX Runtime records which provider runs a node."""
    fault: str | None = None
    """Why the interpreter, or ONNX Runtime, does not load."""

    def finding(self, wanted: Provider) -> Finding | None:
        """What is wrong with the environment itself; of several faults the one to mend first.

        Args:
            wanted: The provider that the environment is for.
        """
        if not self.versions:
            return Finding(f"{self.fault}")
        what, command = self._fault_and_cure(wanted)
        return Finding(f"{self.python}: {what}", command) if what else None

    def _fault_and_cure(self, wanted: Provider) -> tuple[str | None, str | None]:
        loaded = self.versions.get(MODULE)
        names = [wheel.name for wheel in self.wheels]
        if "numpy" not in self.versions:
            return "numpy is not installed", self.install("numpy>=1.26")
        if not (names or loaded) and (self.empty or not self.folders):
            what = wanted.why_not_run("empty-runtime" if self.empty else "no-runtime")
            return what, self.bring(wanted if wanted.wheel else PROVIDERS["cpu"])
        if self.shared:
            now = f"loads as {loaded}" if loaded else f"does not load: {self.fault}"
            what = f"{' and '.join(map(str, self.wheels))} overwrite one another: {self.shared} "
            what += f"files belong to several; the module {now}"
            # Every wheel has the CPU provider; a special one was installed for what it adds.
            kept = min(self.wheels, key=lambda w: (w.name == MODULE, w.version != loaded))
            return what, self.install(kept.pinned, instead_of=names)
        for wheel in self.wheels:
            if wheel.missing:
                again = self.install("--force-reinstall", "--no-deps", wheel.pinned)
                return f"{wheel} is half removed", again
        if self.fault is not None:
            pinned = [wheel.pinned for wheel in self.wheels]
            again = self.install("--force-reinstall", *pinned) if pinned else None
            if "DLL load failed" in self.fault:  # the cause that ONNX Runtime documents
                again = "winget install --id Microsoft.VCRedist.2015+.x64"
            return f"ONNX Runtime does not load: {self.fault}", again
        if not self.records_nodes:
            what = wanted.why_not_run("too-old", f"{loaded}")
            return what, self.install("--upgrade", *names) if names else None
        return None, None

    def bring(self, provider: Provider, plugin: bool = False) -> str | None:
        """The command that installs a provider; None where there is no wheel of it.

        Args:
            provider: The provider.
            plugin: Whether it shall come as a plugin library, beside the module onnxruntime.
        """
        if provider.system not in ("", SYSTEM):
            return None
        if plugin or not provider.wheel:
            return self.install(provider.plugin) if provider.plugin else None
        others = [wheel.name for wheel in self.wheels if wheel.name != provider.distribution]
        return self.install(provider.wheel, instead_of=others)

    def install(self, *arguments: str, instead_of: Sequence[str] = ()) -> str:
        """The command that installs something here, and removes other wheels before."""
        install = self._pip("install", *arguments)
        if not instead_of:
            return install
        return f"{self._pip('uninstall -y' if self.pip else 'uninstall', *instead_of)} && {install}"

    def _pip(self, verb: str, *arguments: str) -> str:
        python, *quoted = map(_quoted, (self.python, *arguments))
        start = f"{python} -m pip {verb}" if self.pip else f"uv pip {verb} --python {python}"
        return " ".join([start, *quoted])

    def lines(self) -> Iterator[str]:
        """Yield its part of the text."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        yield f"{self.python}: {versions or 'does not answer'}"
        if self.versions:
            where = f"of no distribution, in {self.folders[0]}" if self.folders else "not installed"
            told = [str(wheel) for wheel in self.wheels] or [where]
            told += [f"{self.shared} files belong to several"] if self.shared else []
            told += ["the module is empty"] if self.empty else []
            yield _paragraph("  module", "; ".join(told))


class Asked(msgspec.Struct, frozen=True):
    """One of ONNX's gathers, put to a provider in two ways."""

    operator: str
    """Gather, GatherElements or GatherND."""
    alone: Result
    """The result of a model that holds nothing else."""
    between: Result
    """The result of a model where the gather stands between two multiplications by one."""


class Examined(msgspec.Struct, frozen=True, omit_defaults=True):
    """A provider that was started and asked."""

    info: LaneInfo
    asked: tuple[Asked, ...] = ()
    """Empty where the provider did not start."""

    @property
    def runs(self) -> bool:
        """Whether the provider runs any gather."""
        return any(asked.alone.nodes or asked.between.nodes for asked in self.asked)

    def lines(self) -> Iterator[str]:
        """Yield its part of the text."""
        info, state = self.info, "starts"
        if info.not_run is not None:
            state = f"does not start: {info.not_run}"
        elif not self.runs:
            state = f"starts, but runs no gather: {self.asked[0].alone.reason}"
        yield _paragraph(f"  {info.name}", state)
        if info.devices:
            yield _paragraph("    device", ", ".join(info.devices))
        for asked in self.asked if self.runs else ():
            told = f"alone: {_told(asked.alone)}; between two Mul: {_told(asked.between)}"
            yield _paragraph(f"    {asked.operator}", told)


class Examination(msgspec.Struct, frozen=True):
    """An environment and the providers that were examined there."""

    environment: Environment
    providers: tuple[Examined, ...] = ()


class Checkup(msgspec.Struct, frozen=True):
    """Everything that the doctor found, as `onnxgather doctor --json` prints it."""

    onnxgather: str
    """Its version."""
    machine: str
    """Such as `Linux 6.1 x86_64`."""
    examinations: tuple[Examination, ...]
    """This environment first, then those of the lanes."""
    findings: tuple[Finding, ...]
    exit_code: int
    """0: nothing is wrong. 1: findings. 3: no provider runs a gather."""

    def __str__(self) -> str:
        lines = [f"onnxgather {self.onnxgather} on {self.machine}"]
        for examination in self.examinations:
            lines += ["", *examination.environment.lines()]
            for examined in examination.providers:
                lines += examined.lines()
        count = len(self.findings)
        lines += ["", f"{count} finding{'s' * (count > 1)}:" if count else "nothing is wrong"]
        for number, finding in enumerate(self.findings, 1):
            lines.append(_paragraph(f"{number}.", finding.what, indent=4))
            lines += [f"    {finding.command}"] if finding.command else []
        return "\n".join(lines)


def examine(
    pythons: Mapping[str, str] | None = None,
    plugins: Mapping[str, str] | None = None,
    python: str = sys.executable,
    timeout: float = TIMEOUT,
) -> Checkup:
    """Examine this environment, every provider that its ONNX Runtime lists, and further lanes.

    Args:
        pythons: Lanes that run in another environment, and its interpreter.
        plugins: Lanes whose provider comes from a plugin library, and its path.
        python: The interpreter of this environment.
        timeout: Seconds that an environment, and then each gather, may take.

    Raises:
        ProviderError: The name of a lane is no provider's.
    """
    pythons, plugins = pythons or {}, plugins or {}

    def lane(name: str, path: str) -> ModelLane:
        provider = find_provider(name.partition("@")[0])
        library = os.path.abspath(plugins[name]) if name in plugins else None
        return ModelLane(name, provider, path, library, "portable", timeout)

    lanes: dict[str, list[ModelLane]] = {python: []}
    for name in {**pythons, **plugins}:
        path = os.path.expanduser(pythons.get(name, python))
        lanes.setdefault(path, []).append(lane(name, path))
    examinations: list[Examination] = []
    findings: list[Finding] = []
    for path, named in lanes.items():
        found = look_at(path, timeout)
        fault = found.finding(PROVIDERS["cpu"] if path == python else named[0].provider)
        findings += [fault] if fault else []
        listed: list[ModelLane] = []
        if path == python:
            given = [one.provider.name for one in named if one.name not in plugins]
            new = [name for name in found.providers if name not in given]
            listed = [lane(_SHORT.get(name, name), path) for name in new]
        examined = [_examined(one) for one in (*listed, *named)]
        for one in examined:
            if fault is None and one.info.not_run is not None:
                findings.append(_not_started(found, one.info, plugins.get(one.info.name)))
            findings += _wrong(found, one)
        examinations.append(Examination(found, tuple(examined)))
    runs = any(one.runs for each in examinations for one in each.providers)
    return Checkup(
        VERSION,
        f"{platform.system()} {platform.release()} {platform.machine()}",
        tuple(examinations),
        tuple(findings),
        (FINDINGS if findings else GOOD) if runs else NOT_RUN,
    )


def look_at(python: str, timeout: float = TIMEOUT) -> Environment:
    """What an environment has.

    Args:
        python: Its interpreter.
        timeout: Seconds that the interpreter, and then the worker, may take to answer.
    """
    versions, path = _interrogate(python, timeout)
    for name in ("onnx", "numpy", "protobuf"):
        if (package := _installed(name, path)) is not None:
            versions[name] = package.version
    spec = PathFinder.find_spec(MODULE, path)
    found = spec.submodule_search_locations if spec else None
    folders = tuple(str(Path(folder)) for folder in found or ())
    owned = {owner: _files(owner) for owner in _owners(path, folders)}
    files = [file for files in owned.values() for file in files]
    about: dict[str, Any] = {}
    with closing(Worker(python, timeout)) as worker:
        try:
            about, _ = worker.ask({}, b"")
        except NoAnswerError as error:
            about["fault"] = str(error)
    return Environment(
        python,
        versions=versions | about.get("versions", {}),
        pip=PathFinder.find_spec("pip", path) is not None,
        folders=folders,
        empty=spec is not None and spec.origin is None,
        wheels=tuple(
            Wheel(owner.name, owner.version, len(files), sum(not file.exists() for file in files))
            for owner, files in owned.items()
        ),
        shared=len(files) - len(set(files)),
        providers=tuple(about.get("providers", ())),
        records_nodes=about.get("records_nodes", True),
        fault=about.get("fault"),
    )


_ASK = "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"


def _interrogate(python: str, timeout: float) -> tuple[dict[str, str], list[str]]:
    """The version and the search path of an interpreter; empty where it does not answer."""
    command = [python, "-c", _ASK]
    try:
        said = subprocess.run(command, capture_output=True, timeout=timeout, check=True).stdout
        last = said.splitlines()[-1]  # an environment may print at its start
        version, path = msgspec.json.decode(last, type=tuple[str, list[str]])
    except (OSError, subprocess.SubprocessError, LookupError, msgspec.MsgspecError):
        return {}, []  # the worker says what is wrong with it
    return {"python": version}, [entry for entry in path if entry]  # "" is our current folder


def _installed(name: str, path: list[str]) -> Distribution | None:
    """The distribution of a name that Python takes: the first on the search path."""
    return next(iter(distributions(name=name, path=path)), None)


def _owners(path: list[str], folders: tuple[str, ...]) -> list[Distribution]:
    """The distributions whose files lie where Python finds the module."""
    names = {found.name for found in distributions(path=path) if found.name and _files(found)}
    # By name once more, as pip may leave the folder of a wheel that it could not remove.
    owners = [owner for name in sorted(names) if (owner := _installed(name, path))]
    return [o for o in owners if not folders or str(o.locate_file(MODULE)) in folders]


def _files(owner: Distribution) -> list[Path]:
    """The files of the module that a distribution's RECORD lists, compiled Python apart.

    `Distribution.files` lists no missing ones (Python 3.12 and later).
    """
    rows = csv.reader((owner.read_text("RECORD") or "").splitlines())
    names = [row[0] for row in rows if row and row[0].startswith(f"{MODULE}/")]
    return [Path(str(owner.locate_file(name))) for name in names if not name.endswith(".pyc")]


_SHORT = {provider.name: short for short, provider in PROVIDERS.items()}


def _examined(lane: ModelLane) -> Examined:
    """Start a provider, ask it each gather in both ways, and end it."""
    with closing(lane):
        info = lane.start()
        if info.not_run is not None:
            return Examined(info)
        asked = [
            Asked(case.name, *(judge(way, info, lane.answer(way)) for way in ways))
            for case in CASES
            for ways in [(case, case.wrapped_in())]
        ]
        return Examined(info, tuple(asked))


def _not_started(found: Environment, info: LaneInfo, library: str | None) -> Finding:
    """What keeps a provider from starting in an environment without fault, and what mends it."""
    provider = find_provider(info.provider)
    if library is not None:
        lacking = not os.path.exists(library)
    else:  # extras bring libraries that a listed provider may lack
        lacking = info.provider not in found.providers or "[" in provider.wheel
    command = found.bring(provider, library is not None) if lacking else None
    return Finding(f"{found.python}: {info.name}: {info.not_run}", command)


def _wrong(found: Environment, examined: Examined) -> Iterator[Finding]:
    """Yield the gathers that a provider takes and gets wrong."""
    for asked in examined.asked:
        for result in (asked.alone, asked.between):
            if result.state in ("DIFF", "ERROR"):
                where = f"{found.python}: {result.lane}: {asked.operator}"
                yield Finding(f"{where}: {result.state} {result.reason}")


def _told(result: Result) -> str:
    """What became of one model."""
    if result.state == "PASS":
        return f"ran {', '.join(result.nodes)}"
    return f"{result.state} {result.reason}"


def _paragraph(label: str, text: str, indent: int = LABEL) -> str:
    """A label and a text beside it, which starts where the label leaves room."""
    return textwrap.fill(
        f"{label + '  ':<{indent}}{' '.join(text.split())}",
        WIDTH,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _quoted(text: str) -> str:
    """An argument as every shell takes it."""
    return f'"{text}"' if set(text) & set(" <>[]&()") else text
