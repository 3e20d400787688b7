"""The doctor: which ONNX Runtime wheels and providers work, and how to mend the others.

All ONNX Runtime wheels write the same files, and pip lets them overwrite and remove one
another. The doctor reads an environment's files along the search path of its
interpreter. It does not import onnxruntime, as a broken one may crash. Workers start
each provider and run each gather.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, distributions
from itertools import chain
from pathlib import Path

import msgspec
from msgspec.structs import replace

from onnxgather.checking.cases import GATHER_NODES, smallest_case
from onnxgather.checking.judge import judge
from onnxgather.checking.lanes import (
    REFERENCE,
    OpenedLane,
    base_of,
    lanes_installed,
    lanes_set_up,
    open_lanes,
)
from onnxgather.checking.lanes.lane import CASE_TIMEOUT, LaneInfo
from onnxgather.checking.lanes.python import interpreter
from onnxgather.checking.results import Result
from onnxgather.checking.run import MACHINE
from onnxgather.core.checks import argument_text, number_of, printable
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.errors import FINDINGS, GOOD, NOT_RUN
from onnxgather.core.execution.elsewhere.child import NoAnswerError
from onnxgather.core.execution.elsewhere.worker import About, Worker
from onnxgather.core.execution.kernels import operators_library, python_kernels, why_not
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.execution.prepared import Gather
from onnxgather.core.execution.providers import (
    PROVIDERS,
    SYSTEM,
    Provider,
    find_provider,
    plugin_provider,
)
from onnxgather.core.version import __version__

MODULE = "onnxruntime"
"""The module that all wheels of ONNX Runtime bring."""

CASES = [smallest_case(name, "FLOAT32") for name in GATHER_NODES]
"""Cases whose model is one node; each has the name of the node's operator."""


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
    """A provider or another runtime, and the results of each gather on it."""

    info: LaneInfo
    results: dict[str, Result] = {}
    """The results by the nodes of the model: `Gather` and, if the provider does not run
    that alone, `Mul Gather Mul` too. Empty if the provider did not start."""

    @property
    def runs(self) -> bool:
        """Whether the provider runs any gather."""
        # Case: another runtime may not tell what ran, and its output counts alone.
        return any(
            result.nodes or result.state in ("PASS", "DIFF")
            for result in self.results.values()
        )

    def lines(self) -> list[str]:
        """Return the provider's lines of the text."""
        if self.info.not_run is not None:
            return [f"  {self.info.name}: does not start: {self.info.not_run}"]
        line = f"  {self.info.name}: starts"
        version = self.info.versions.get(self.info.provider)
        if version:  # of another runtime or a plugin; those of ONNX Runtime are above
            line += f", version {version}"
        if self.info.devices:
            line += f" on {', '.join(self.info.devices)}"
        if self.info.at_exit:
            line += f"; {self.info.at_exit}"
        if not self.runs:
            return [f"{line}, but runs no gather"]
        lines = [line]
        for nodes, result in self.results.items():
            lines.append(f"    {nodes}: {_state_and_reason(result)}")
        return lines


class Environment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Python environment and its packages, or a host; and its ONNX Runtime."""

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
    runtimes: tuple[str, ...] = ()
    """The lanes of the other runtimes whose modules are installed."""
    takes_plugins: bool = False
    """Whether ONNX Runtime loads plugin libraries, such as that of onnxgather's own
    provider."""

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong."""
        if not self.versions:  # it does not answer
            yield Finding(f"{self.fault}")
            return
        # The other faults, and providers that do not start, may come of the first.
        fault = next(self._faults(), None)
        if fault is not None:
            what, command = fault
            yield Finding(f"{self.python}: {what}", command)
        for tried in self.providers:
            where = f"{self.python}: {tried.info.name}"
            if fault is None and tried.info.not_run is not None:
                command = self._cure_of_provider(tried.info)
                yield Finding(f"{where}: {tried.info.not_run}", command)
            for nodes, result in tried.results.items():
                if result.is_wrong:
                    yield Finding(f"{where}: {nodes}: {_state_and_reason(result)}")

    def _cure_of_provider(self, info: LaneInfo) -> str | None:
        """Return the command that installs what a provider lacks, if a wheel has it."""
        if self.is_host or info.adapter is not None:
            return None
        runtime = OTHER_RUNTIMES.get(info.provider)
        if runtime is not None:
            is_installed = runtime.name in self.runtimes
            return None if is_installed else self._install(*runtime.wheels)
        # Case: the environment has another runtime in place of the provider.
        if info.meant is not None:
            python = argument_text(self.python)
            return f"onnxgather doctor --lane {info.meant}={python}"
        provider = plugin_provider(info.provider)
        # A listed provider may lack the libraries of an extra, such as cuda's.
        has_extra = "[" in provider.wheel
        is_installed = info.provider in self.listed and not has_extra
        # Without ONNX Runtime a plugin library is of no use yet.
        has_library = info.plugin is not None and self.listed
        if is_installed or has_library:
            return None
        return self._install_provider(provider)

    def _faults(self) -> Iterator[tuple[str, str | None]]:
        """Yield the environment's faults with their cures, in the order to mend."""
        if not self.is_host and "numpy" not in self.versions:
            yield "numpy is not installed", self._install("numpy>=1.26")
        pinned = {wheel.name: f"{wheel.name}=={wheel.version}" for wheel in self.wheels}
        reinstall = None
        if pinned:
            reinstall = self._install(*pinned.values(), instead_of=[*pinned])
        if self.shared:
            yield self._overwritten_wheels(pinned)
        for wheel in self.wheels:
            if wheel.missing:
                yield f"{wheel} is half removed", reinstall
        if self.fault is not None and self.folder is not None:
            cure = reinstall
            if "DLL load failed" in self.fault:  # the cause that ONNX Runtime documents
                cure = "winget install --id Microsoft.VCRedist.2015+.x64"
            yield f"ONNX Runtime does not load: {self.fault}", cure
        if not self.records_nodes:
            version = str(self.versions.get(MODULE))
            upgrade = self._install("--upgrade", *pinned) if pinned else None
            yield PROVIDERS["cpu"].why_not_run("too-old", version), upgrade

    def _overwritten_wheels(self, pinned: Mapping[str, str]) -> tuple[str, str]:
        """Return the fault that wheels share files, and its cure.

        Args:
            pinned: The requirement of each wheel, by its name.
        """
        loaded = self.versions.get(MODULE)

        # All wheels have the CPU provider; a special wheel stays for what it adds.
        def rank(wheel: Wheel) -> tuple[bool, bool]:
            return wheel.name == MODULE, wheel.version != loaded

        kept = min(self.wheels, key=rank)
        wheels = " and ".join(map(str, self.wheels))
        state = f"does not load: {self.fault}"
        if loaded:
            state = f"loads as {loaded}"
        what = (
            f"{wheels} overwrite one another: {self.shared} files belong to several;"
            f" the module {state}"
        )
        return what, self._install(pinned[kept.name], instead_of=[*pinned])

    def _install_provider(self, provider: Provider) -> str | None:
        """Return the command that installs a provider; None if no wheel has it."""
        if provider.system not in ("", SYSTEM):
            return None
        if provider.wheel:
            names = [wheel.name for wheel in self.wheels]
            others = [name for name in names if name != provider.distribution]
            # Case: the lanes of this environment need its wheel.
            if others and self.python == sys.executable:
                lane = f"--lane {provider.short_name}={provider.environment}"
                command = provider.make_environment(with_onnxgather=False)
                return f"{command} && onnxgather doctor {lane}"
            return self._install(provider.wheel, instead_of=others)
        return self._install(provider.plugin) if provider.plugin else None

    def _install(self, *arguments: str, instead_of: Sequence[str] = ()) -> str:
        """Return the command that installs packages.

        Args:
            arguments: The packages, and options of the installer.
            instead_of: Names of packages that the command removes first.
        """
        python = argument_text(self.python)
        if self.pip:
            install = f"{python} -m pip install"
            uninstall = f"{python} -m pip uninstall -y"
        else:
            install = f"uv pip install --python {python}"
            uninstall = f"uv pip uninstall --python {python}"
        command = " ".join([install, *map(argument_text, arguments)])
        if instead_of:
            command = " ".join([uninstall, *instead_of, "&&", command])
        return command


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
        if self.kernels:
            lines.append(f"native kernels: {self.kernels}")
        for environment in self.environments:
            lines.append("")
            lines += _environment_lines(environment)
        lines.append("")
        if self.findings:
            lines.append(f"{number_of(len(self.findings), 'finding')}:")
        else:
            lines.append("nothing is wrong")
        for number, finding in enumerate(self.findings, 1):
            lines.append(f"{number}. {finding.what}")
            if finding.command:
                lines.append(f"   {finding.command}")
        return "\n".join(map(printable, lines))


def _environment_lines(environment: Environment) -> list[str]:
    versions = ", ".join(map(" ".join, environment.versions.items()))
    lines = [f"{environment.python}: {versions or 'does not answer'}"]
    for wheel in environment.wheels:
        lines.append(f"  {wheel}")
    # Case: the module was built here, or copied.
    if environment.folder and not environment.wheels:
        lines.append(f"  {MODULE} of no wheel, in {environment.folder}")
    for tried in environment.providers:
        lines += tried.lines()
    return lines


def examine(
    pythons: Mapping[str, str] = {},
    plugins: Mapping[str, str] = {},
    python: str = sys.executable,
    timeout: float = CASE_TIMEOUT,
    adapters: Mapping[str, str] = {},
    provider_options: Mapping[str, Mapping[str, str]] = {},
    environments: Mapping[str, str] = {},
) -> Checkup:
    """Examine all lanes of this machine.

    They are the providers that this environment's ONNX Runtime lists, the other
    runtimes that it has, the lanes that scripts of onnxgather set up, and what the
    arguments name.

    With plugins only the lanes that are named are tried.

    Args:
        pythons: The interpreters of lanes that run in another environment, or shared
            libraries of ONNX Runtime, by the lanes' names.
        plugins: The plugin libraries that bring the providers of lanes, by the lanes'
            names.
        python: The interpreter of this environment.
        timeout: Seconds that an environment, and then each gather, may take.
        adapters: The files of adapters of one's own, by the names of their lanes.
        provider_options: As of `open_lanes`.
        environments: The interpreters of other environments, by labels. All that they
            have are lanes; the label tells a lane from one of the same name.

    Raises:
        ProviderError: The name of a lane is no provider's.
        OnnxGatherError: As `open_lanes`.
    """
    # Case: the reference is computed here; a path of it is refused.
    if REFERENCE in pythons:
        find_provider(REFERENCE, *OTHER_RUNTIMES)
    # An adapter has a lane here, unless it has lanes elsewhere.
    bases = {base_of(name) for name in pythons}
    here = [*plugins, *(name for name in adapters if name not in bases)]
    paths = dict.fromkeys(here, python) | {**pythons}
    # A runtime with an adapter of one's own is not tried with the one that is here.
    named = {*adapters}
    for name, path in paths.items():
        if interpreter(path) == python:
            named.add(base_of(name))
    names = [*paths]
    if not plugins:
        names = list(dict.fromkeys([*lanes_set_up(), *paths]))
    lanes = list[OpenedLane]()
    if names:
        lanes = open_lanes(
            names,
            paths,
            plugins,
            timeout=timeout,
            adapters=adapters,
            provider_options=provider_options,
        )

    own = look_at(python, timeout)
    if not plugins:
        own = _with_lanes(own, timeout, named)
    tried = {python: [*own.providers]}
    for lane in lanes:
        tried.setdefault(lane.place, []).append(_tried(lane))
    examined: list[Environment] = []
    taken = set[str]()
    for place, providers in tried.items():
        environment = own
        if place != python:
            environment = _environment(place, providers[0].info, timeout)
        examined.append(replace(environment, providers=tuple(providers)))
        taken.update(one.info.name for one in providers)
    for label, place in environments.items():
        environment = _with_lanes(look_at(place, timeout), timeout, (), label, taken)
        examined.append(environment)
        taken.update(one.info.name for one in environment.providers)

    of_environments = [each.findings() for each in examined]
    findings = [*chain.from_iterable(of_environments)]
    kernels = ""
    # Another interpreter has kernels of its own, which are not asked.
    if python == sys.executable and not plugins:
        kernels, are_broken = try_kernels(timeout)
        if are_broken:
            findings.append(Finding(f"native kernels: {kernels}"))
    exit_code = NOT_RUN
    if any(one.runs for each in examined for one in each.providers):
        exit_code = FINDINGS if findings else GOOD
    return Checkup(
        __version__, MACHINE, tuple(examined), tuple(findings), exit_code, kernels
    )


def _with_lanes(
    environment: Environment,
    timeout: float,
    named: Collection[str],
    label: str = "",
    taken: Collection[str] = (),
) -> Environment:
    """Return a Python environment, after trying the lanes that it has.

    Args:
        environment: The environment.
        timeout: Seconds that each gather may take.
        named: The lanes that are not tried, without labels.
        label: The label of a lane whose name is taken; empty for this environment.
        taken: The names of the lanes before.
    """
    names = lanes_installed(
        environment.listed, environment.runtimes, named, environment.takes_plugins
    )
    # Without any lane, that of the CPU says why nothing starts.
    if label:
        # Case: onnx alone is there for its evaluator.
        names = names or [*environment.runtimes] or ["cpu"]
    elif not environment.listed and not named:
        names.insert(0, "cpu")
    if not names:
        return environment
    names = [f"{name}@{label}" if name in taken else name for name in names]
    python = environment.python
    lanes = open_lanes(names, dict.fromkeys(names, python), timeout=timeout)
    tried = tuple(map(_tried, lanes))
    return replace(environment, providers=tried)


def _environment(place: str, first: LaneInfo, timeout: float) -> Environment:
    """Return the environment of lanes, or their host.

    Args:
        place: The interpreter or the host.
        first: The first lane there.
        timeout: Seconds that an environment may take.
    """
    if first.python is not None:
        return look_at(place, timeout)
    fault = first.not_run and f"{first.name}: {first.not_run}"
    return Environment(place, versions=first.versions, fault=fault, is_host=True)


def try_kernels(timeout: float = CASE_TIMEOUT) -> tuple[str, bool]:
    """Return in words whether the native kernels run, and whether they are broken.

    Kernels are broken if they are there but do not run, or are wrong.
    """
    if operators_library() is None and python_kernels() is None:
        return f"none, as {why_not()}", False
    faults: list[str] = []
    module_fault = _fault_of_module()
    if module_fault is not None:
        faults.append(module_fault)
    (lane,) = open_lanes(["cpu@native"], timeout=timeout)
    tried = _tried(lane)
    results = list(tried.results.values())
    is_wrong = any(result.is_wrong for result in results)
    are_broken = module_fault is not None or is_wrong
    # Without ONNX Runtime its operators cannot run, which breaks nothing.
    failures = [
        _state_and_reason(result) for result in results if result.state != "PASS"
    ]
    if tried.info.not_run:
        failures.insert(0, tried.info.not_run)
    if failures:
        faults.append(f"the operators of ONNX Runtime: {failures[0]}")
    return "; ".join(faults) or "run in Python and in ONNX Runtime", are_broken


def _fault_of_module() -> str | None:
    """Return what is wrong with the kernels' Python module; None if it is right."""
    if python_kernels() is None:
        return "the Python module does not load"
    case = CASES[0]
    output = Gather(case.descriptor)(case.data, case.indices)
    expected = reference(case.descriptor, case.data, case.indices)
    if output.tobytes() != expected.tobytes():
        return "the Python module gathers other elements than the reference"
    return None


def _tried(lane: OpenedLane) -> TriedProvider:
    """Start the lane of a provider, run each gather on it, and end it."""
    results: dict[str, Result] = {}
    with closing(lane):
        info = lane.start()
        if info.not_run is not None:
            return TriedProvider(info, results)
        for case in CASES:
            result = judge(case, info, lane.answer(case))
            results[case.name] = result
            if result.state == "NOT-RUN":  # some providers run no lone node
                wrapped = case.wrapped_in()
                result = judge(wrapped, info, lane.answer(wrapped))
                results[f"Mul {case.name} Mul"] = result
    return TriedProvider(info, results)


def look_at(python: str, timeout: float = CASE_TIMEOUT) -> Environment:
    """Return the environment of an interpreter; `timeout` is in seconds."""
    versions, path = _version_and_path(python, timeout)
    for name in ("onnx", "numpy", "protobuf"):
        for package in distributions(name=name, path=path):
            # Python takes the first on the path.
            versions.setdefault(name, package.version)
    spec = PathFinder.find_spec(MODULE, path)
    folder = None
    roots = path
    if spec is not None and spec.origin:
        folder = os.path.dirname(spec.origin)
        roots = [os.path.dirname(folder)]
    wheels: list[Wheel] = []
    files: list[Path] = []
    for wheel, files_of_wheel in _owners(roots):
        wheels.append(wheel)
        files += files_of_wheel
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
        wheels=tuple(wheels),
        shared=len(files) - len(set(files)),
        listed=about.providers,
        records_nodes=about.records_nodes,
        takes_plugins=about.takes_plugins,
        fault=about.fault,
        runtimes=tuple(_runtimes_on(path)),
    )


def _runtimes_on(path: Sequence[str]) -> Iterator[str]:
    """Yield the lanes of the other runtimes whose modules are on a search path."""
    for runtime in OTHER_RUNTIMES.values():
        packages = {module.partition(".")[0] for module in runtime.modules}
        if all(PathFinder.find_spec(name, path) for name in packages):
            yield runtime.name


def _version_and_path(python: str, timeout: float) -> tuple[dict[str, str], list[str]]:
    """Return an interpreter's version and search path; empty if it does not answer."""
    program = (
        "import json, platform, sys; print(json.dumps([platform.python_version(),"
        " sys.path]))"
    )
    try:
        run = subprocess.run(
            [python, "-c", program], capture_output=True, timeout=timeout, check=True
        )
        last = run.stdout.splitlines()[-1]  # an environment may print at its start
        version, path = msgspec.json.decode(last, type=tuple[str, list[str]])
    except (OSError, subprocess.SubprocessError, LookupError, msgspec.MsgspecError):
        return {}, []  # the worker says what is wrong with it
    folders = [folder for folder in path if folder]  # "" is our current folder
    return {"python": version}, folders


def _owners(path: Sequence[str]) -> Iterator[tuple[Wheel, list[Path]]]:
    """Yield the wheels that own files of the module, each with these files."""
    for root in path:
        # pip leaves a wheel that it could not remove under a name with a ~.
        for record in sorted(Path(root).glob("[!~]*.dist-info/RECORD")):
            files = _files_of_module(record)
            if files:
                owner = Distribution.at(record.parent)
                missing = sum(not file.exists() for file in files)
                yield Wheel(owner.name, owner.version, len(files), missing), files


def _files_of_module(record: Path) -> list[Path]:
    """Return the files of the module that a RECORD lists, without .pyc files."""
    lines = record.read_text(encoding="utf-8").splitlines()
    folder = record.parents[1]
    files: list[Path] = []
    for row in csv.reader(lines):
        if row and row[0].startswith(f"{MODULE}/") and not row[0].endswith(".pyc"):
            files.append(folder / row[0])
    return files


def _state_and_reason(result: Result) -> str:
    return f"{result.state} {result.reason}" if result.reason else result.state
