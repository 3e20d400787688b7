"""The doctor: which ONNX Runtime wheels and providers work, and the commands that mend the others.

All ONNX Runtime wheels write the same files, and pip lets them overwrite and remove one
another. The doctor reads an environment's files along the search path of its
interpreter. It does not import onnxruntime, as a broken one may crash. Workers start
each provider and run each gather.
"""

from __future__ import annotations

import csv
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, distributions
from pathlib import Path

import msgspec

from onnxgather.checking.cases import smallest_case
from onnxgather.checking.judge import judge
from onnxgather.checking.lanes.lane import CASE_TIMEOUT, LaneInfo
from onnxgather.checking.lanes.python import ModelLane, model_lane
from onnxgather.checking.results import Result
from onnxgather.checking.run import MACHINE
from onnxgather.core.checks import number_of, printable
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.errors import FINDINGS, GOOD, NOT_RUN
from onnxgather.core.execution.elsewhere.child import NoAnswerError
from onnxgather.core.execution.elsewhere.hosts import (
    WINDOWS_LANE,
    find_runtime,
    windows_host,
)
from onnxgather.core.execution.elsewhere.worker import About, Worker
from onnxgather.core.execution.kernels import operators_library, python_kernels, why_not
from onnxgather.core.execution.prepared import Gather
from onnxgather.core.execution.providers import (
    PROVIDERS,
    WEB_PROVIDERS,
    Provider,
    find_provider,
)
from onnxgather.core.model.write import VERSION

MODULE = "onnxruntime"

SYSTEM = {"Darwin": "macOS"}.get(platform.system(), platform.system())
"""This operating system, as `Provider.system` names it."""

CASES = [
    smallest_case(name, "FLOAT32") for name in ("Gather", "GatherElements", "GatherND")
]
"""Cases whose model is one node; each has the name of the node's operator."""

_SHORT = {provider.name: short for short, provider in PROVIDERS.items()}


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is wrong with an environment."""

    what: str
    """One sentence that says what is wrong."""
    command: str | None = None
    """The command that mends it; None if no package does."""


class Wheel(msgspec.Struct, frozen=True):
    """A distribution that owns files of the module onnxruntime."""

    name: str
    version: str
    files: int
    """How many files of the module the RECORD of the distribution lists, without .pyc
    files."""
    missing: int
    """How many of these files are not on the disk."""

    def __str__(self) -> str:
        return (
            f"{self.name} {self.version} ({self.files} files, {self.missing} missing)"
        )


class TriedProvider(msgspec.Struct, frozen=True, omit_defaults=True):
    """A provider, and the results of each gather on it."""

    info: LaneInfo
    results: dict[str, Result] = {}
    """The results by the nodes of the model: `Gather` and, if the provider does not run
    that alone, `Mul Gather Mul` too. Empty if the provider did not start."""

    @property
    def runs(self) -> bool:
        """Whether the provider runs any gather."""
        return any(result.nodes for result in self.results.values())

    def lines(self) -> list[str]:
        """The provider's lines of the text."""
        if self.info.not_run is not None:
            return [f"  {self.info.name}: does not start: {self.info.not_run}"]
        devices = f" on {', '.join(self.info.devices)}" if self.info.devices else ""
        starts = f"  {self.info.name}: starts{devices}"
        if not self.runs:
            return [f"{starts}, but runs no gather"]
        return [
            starts,
            *(f"    {nodes}: {_told(each)}" for nodes, each in self.results.items()),
        ]


class Environment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Python environment and its packages, or a host; and what its ONNX Runtime says."""

    python: str
    """The interpreter, as the user named it; of a host its command, or its shared
    library."""
    versions: dict[str, str] = {}
    """The versions of Python and of the packages that count; empty if Python does not
    answer."""
    pip: bool = True
    """Whether pip is installed; uv makes environments without it."""
    folder: str | None = None
    """Where the module onnxruntime is; None if it is absent or holds no code."""
    wheels: tuple[Wheel, ...] = ()
    """The wheels that own files of the module; empty if no wheel installed it."""
    shared: int = 0
    """How many files several wheels own."""
    listed: tuple[str, ...] = ()
    """The full names of the providers that ONNX Runtime lists; a listed one may not
    start."""
    records_nodes: bool = True
    """Whether ONNX Runtime records which provider runs a node."""
    fault: str | None = None
    """Why the interpreter, or ONNX Runtime, does not load."""
    providers: tuple[TriedProvider, ...] = ()
    """The providers that were started."""
    is_host: bool = False
    """Whether it is a host, which has no Python."""

    def findings(self, plugins: Mapping[str, str]) -> Iterator[Finding]:
        """Yield what is wrong; `plugins` has the paths of plugin libraries by lane."""
        if not self.versions:
            yield Finding(f"{self.fault}")
            return
        fault = next(self._faults(), None)  # the others may come of the first
        if fault is not None:
            yield Finding(f"{self.python}: {fault[0]}", fault[1])
        for tried in self.providers:
            info = tried.info
            where = f"{self.python}: {info.name}"
            if fault is None and info.not_run is not None:
                provider = find_provider(info.provider)
                library = plugins.get(info.name) if self.listed else None
                # An extra, such as cuda's, brings libraries that a listed provider may
                # lack.
                complete = info.provider in self.listed and "[" not in provider.wheel
                there = os.path.exists(library) if library else complete
                cure = None if there or self.is_host else self._bring(provider, library)
                yield Finding(f"{where}: {info.not_run}", cure)
            for nodes, result in tried.results.items():
                if result.is_wrong:
                    yield Finding(f"{where}: {nodes}: {_told(result)}")

    def _faults(self) -> Iterator[tuple[str, str | None]]:
        """Yield the faults of the environment itself with their cures; mend the first one first."""
        if not self.is_host and "numpy" not in self.versions:
            yield "numpy is not installed", self._install("numpy>=1.26")
        loaded = self.versions.get(MODULE)
        pinned = {wheel.name: f"{wheel.name}=={wheel.version}" for wheel in self.wheels}
        again = (
            self._install(*pinned.values(), instead_of=[*pinned]) if pinned else None
        )
        if self.shared:
            # Every wheel has the CPU provider; a special one was installed for what it
            # adds.
            kept = min(
                self.wheels, key=lambda w: (w.name == MODULE, w.version != loaded)
            )
            one = self._install(pinned[kept.name], instead_of=[*pinned])
            what = (
                f"{' and '.join(map(str, self.wheels))} overwrite one another:"
                f" {self.shared} "
            )
            now = f"loads as {loaded}" if loaded else f"does not load: {self.fault}"
            yield f"{what}files belong to several; the module {now}", one
        for wheel in self.wheels:
            if wheel.missing:
                yield f"{wheel} is half removed", again
        if self.fault is not None and self.folder is not None:
            if "DLL load failed" in self.fault:  # the cause that ONNX Runtime documents
                again = "winget install --id Microsoft.VCRedist.2015+.x64"
            yield f"ONNX Runtime does not load: {self.fault}", again
        if not self.records_nodes:
            newer = self._install("--upgrade", *pinned) if pinned else None
            yield PROVIDERS["cpu"].why_not_run("too-old", f"{loaded}"), newer

    def _bring(self, provider: Provider, library: str | None = None) -> str | None:
        """The command that installs a provider, or its plugin library; None if no wheel has it."""
        if provider.system not in ("", SYSTEM):
            return None
        if provider.wheel and library is None:
            others = [
                wheel.name
                for wheel in self.wheels
                if wheel.name != provider.distribution
            ]
            return self._install(provider.wheel, instead_of=others)
        return self._install(provider.plugin) if provider.plugin else None

    def _install(self, *arguments: str, instead_of: Sequence[str] = ()) -> str:
        """The command that installs packages.

        Args:
            arguments: The packages, and options of the installer.
            instead_of: Names of packages that the command removes first.
        """
        pip = (
            "{python} -m pip {verb}" if self.pip else "uv pip {verb} --python {python}"
        )
        python = _quoted(self.python)
        command = [pip.format(python=python, verb="install"), *map(_quoted, arguments)]
        if instead_of:
            verb = "uninstall -y" if self.pip else "uninstall"
            command = [
                pip.format(python=python, verb=verb),
                *instead_of,
                "&&",
                *command,
            ]
        return " ".join(command)


class Checkup(msgspec.Struct, frozen=True):
    """Everything that the doctor found, as `onnxgather doctor --json` prints it."""

    onnxgather: str
    """Its version."""
    machine: str
    """Such as `Linux 6.1 x86_64`."""
    environments: tuple[Environment, ...]
    """This environment first, then those of the lanes."""
    findings: tuple[Finding, ...]
    exit_code: int
    """0: nothing is wrong. 1: there are findings. 3: no provider runs a gather."""
    kernels: str = ""
    """Whether onnxgather's native kernels run; empty if `python` is another
    interpreter."""

    def __str__(self) -> str:
        lines = [f"onnxgather {self.onnxgather} on {self.machine}"]
        lines += [f"native kernels: {self.kernels}"] if self.kernels else []
        for found in self.environments:
            versions = ", ".join(map(" ".join, found.versions.items()))
            lines += ["", f"{found.python}: {versions or 'does not answer'}"]
            lines += [f"  {wheel}" for wheel in found.wheels]
            if found.folder and not found.wheels:
                lines.append(f"  {MODULE} of no wheel, in {found.folder}")
            for tried in found.providers:
                lines += tried.lines()
        count = number_of(len(self.findings), "finding")
        lines += ["", f"{count}:" if self.findings else "nothing is wrong"]
        for number, finding in enumerate(self.findings, 1):
            lines.append(f"{number}. {finding.what}")
            lines += [f"   {finding.command}"] if finding.command else []
        return "\n".join(map(printable, lines))


def examine(
    pythons: Mapping[str, str] | None = None,
    plugins: Mapping[str, str] | None = None,
    python: str = sys.executable,
    timeout: float = CASE_TIMEOUT,
) -> Checkup:
    """Examine this environment, every provider that its ONNX Runtime lists, and further lanes.

    Args:
        pythons: The interpreters of lanes that run in another environment, or shared libraries of
            ONNX Runtime, by the lanes' names.
        plugins: The plugin libraries that bring the providers of lanes, by the lanes' names.
        python: The interpreter of this environment.
        timeout: Seconds that an environment, and then each gather, may take.

    Raises:
        ProviderError: The name of a lane is no provider's.
    """
    pythons, plugins = pythons or {}, plugins or {}

    def lane(name: str, path: str | None) -> ModelLane:
        return model_lane(name, path, plugins.get(name), "portable", timeout)

    made = [
        short for short, one in (PROVIDERS | WEB_PROVIDERS).items() if find_runtime(one)
    ]
    made += [WINDOWS_LANE] if os.path.isfile(windows_host()) else []
    paths = {**dict.fromkeys(made), **dict.fromkeys(plugins, python), **pythons}
    environments: list[Environment] = []
    for place, lanes in _by_place(python, map(lane, paths, paths.values())).items():
        is_host = any(one.host for one in lanes)
        found = Environment(place, is_host=True) if is_host else look_at(place, timeout)
        if place == python:
            lanes[:0] = [lane(name, place) for name in _unnamed(found, lanes, plugins)]
        environments.append(_with_providers(found, lanes))
    findings = [
        finding for found in environments for finding in found.findings(plugins)
    ]
    kernels, broken = try_kernels(timeout) if python == sys.executable else ("", False)
    findings += [Finding(f"native kernels: {kernels}")] if broken else []
    runs = any(one.runs for found in environments for one in found.providers)
    exit_code = (FINDINGS if findings else GOOD) if runs else NOT_RUN
    return Checkup(
        VERSION, MACHINE, tuple(environments), tuple(findings), exit_code, kernels
    )


def _by_place(python: str, lanes: Iterable[ModelLane]) -> dict[str, list[ModelLane]]:
    """Lanes by the interpreter or the host that runs them; `python` comes first."""
    places: dict[str, list[ModelLane]] = {python: []}
    for lane in lanes:
        # Of a browser it is the folder of onnxruntime-web.
        place = (
            lane.host[-1 if lane.provider.library else 0] if lane.host else lane.python
        )
        places.setdefault(place, []).append(lane)
    return places


def _unnamed(
    environment: Environment, lanes: Sequence[ModelLane], plugins: Mapping[str, str]
) -> list[str]:
    """The names of the providers that an environment lists and no lane of it names.

    The CPU's where there would be no lane at all.
    """
    named = [lane.provider.name for lane in lanes if lane.name not in plugins]
    names = [_SHORT.get(name, name) for name in environment.listed if name not in named]
    return names if names or lanes else ["cpu"]


def _with_providers(
    environment: Environment, lanes: Sequence[ModelLane]
) -> Environment:
    """The environment with what its lanes did; a host has its versions from its first lane."""
    tried = tuple(map(_tried, lanes))
    if environment.is_host:
        info = tried[0].info
        fault = info.not_run and f"{info.name}: {info.not_run}"
        environment = msgspec.structs.replace(
            environment, versions=info.versions, fault=fault
        )
    return msgspec.structs.replace(environment, providers=tried)


def try_kernels(timeout: float = CASE_TIMEOUT) -> tuple[str, bool]:
    """In words whether the native kernels run, and whether kernels are there that do not run."""
    if operators_library() is None and python_kernels() is None:
        return f"none, as {why_not()}", False
    case = CASES[0]
    given = case.descriptor, case.data, case.indices
    wrong: list[str] = []
    if python_kernels() is None:
        wrong.append("the Python module does not load")
    elif Gather(case.descriptor)(*given[1:]).tobytes() != reference(*given).tobytes():
        wrong.append("the Python module gathers other elements than the reference")
    tried = _tried(model_lane("cpu@native", timeout=timeout))
    unlike = [
        _told(result) for result in tried.results.values() if result.state != "PASS"
    ]
    missing = [*filter(None, [tried.info.not_run]), *unlike][:1]
    broken = bool(wrong) or any(result.is_wrong for result in tried.results.values())
    wrong += [f"the operators of ONNX Runtime: {why}" for why in missing]
    return "; ".join(wrong) or "run in Python and in ONNX Runtime", broken


def _tried(lane: ModelLane) -> TriedProvider:
    """Start the lane of a provider, run each gather on it, and end it."""
    results: dict[str, Result] = {}
    with closing(lane):
        info = lane.start()
        for case in CASES if info.not_run is None else ():
            result = results[case.name] = judge(case, info, lane.answer(case))
            if result.state == "NOT-RUN":  # some providers run no lone node
                wrapped = case.wrapped_in()
                results[f"Mul {case.name} Mul"] = judge(
                    wrapped, info, lane.answer(wrapped)
                )
    return TriedProvider(info, results)


def look_at(python: str, timeout: float = CASE_TIMEOUT) -> Environment:
    """The environment of an interpreter; `timeout` is in seconds."""
    versions, path = _interrogate(python, timeout)
    for name in ("onnx", "numpy", "protobuf"):
        for package in distributions(name=name, path=path):
            versions.setdefault(
                name, package.version
            )  # Python takes the first on the path
    spec = PathFinder.find_spec(MODULE, path)
    folder = os.path.dirname(spec.origin) if spec and spec.origin else None
    owned = list(_owned([os.path.dirname(folder)] if folder else path))
    files = [file for _, some in owned for file in some]
    with closing(Worker(python, timeout)) as worker:
        try:
            about = worker.about()
        except NoAnswerError as error:
            about = About({}, fault=str(error))
    return Environment(
        python,
        versions=versions | about.versions,
        pip=PathFinder.find_spec("pip", path) is not None,
        folder=folder,
        wheels=tuple(wheel for wheel, _ in owned),
        shared=len(files) - len(set(files)),
        listed=about.providers,
        records_nodes=about.records_nodes,
        fault=about.fault,
    )


def _interrogate(python: str, timeout: float) -> tuple[dict[str, str], list[str]]:
    """The version and the search path of an interpreter; empty if it does not answer."""
    ask = (
        "import json, platform, sys; print(json.dumps([platform.python_version(),"
        " sys.path]))"
    )
    try:
        said = subprocess.run(
            [python, "-c", ask], capture_output=True, timeout=timeout, check=True
        )
        last = said.stdout.splitlines()[-1]  # an environment may print at its start
        version, path = msgspec.json.decode(last, type=tuple[str, list[str]])
    except (OSError, subprocess.SubprocessError, LookupError, msgspec.MsgspecError):
        return {}, []  # the worker says what is wrong with it
    return {"python": version}, [
        entry for entry in path if entry
    ]  # "" is our current folder


def _owned(path: Sequence[str]) -> Iterator[tuple[Wheel, list[Path]]]:
    """Yield the wheels that own files of the module, each with these files."""
    # pip leaves a wheel that it could not remove under a name with a ~.
    for record in (
        r for root in path for r in sorted(Path(root).glob("[!~]*.dist-info/RECORD"))
    ):
        rows = csv.reader(record.read_text(encoding="utf-8").splitlines())
        names = [row[0] for row in rows if row and row[0].startswith(f"{MODULE}/")]
        files = [
            record.parents[1] / name for name in names if not name.endswith(".pyc")
        ]
        if files:
            owner, missing = (
                Distribution.at(record.parent),
                sum(not f.exists() for f in files),
            )
            yield Wheel(owner.name, owner.version, len(files), missing), files


def _told(result: Result) -> str:
    return f"{result.state} {result.reason}" if result.reason else result.state


def _quoted(text: str) -> str:
    """An argument of a command, quoted if it needs quotes, for any shell."""
    return f'"{text}"' if set(text) & set(" <>[]&()") else text
