"""A Python environment: which ONNX Runtime it has, whether that loads, and what mends it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import msgspec
import numpy as np
from packaging.version import InvalidVersion, Version

from onnxgather.doctor import installed
from onnxgather.doctor.wheels import OLDEST_RUNTIME, WHEELS, Wheel
from onnxgather.lanes.worker import Worker, WorkerError
from onnxgather.model import bare_model
from onnxgather.options import DEFAULT_OPSET, OPSETS
from onnxgather.runtime import CPU

TIMEOUT = 60.0
"""Seconds that an environment may take to answer."""

OLDEST_IR = 8
"""What onnxgather's models have at least."""

BEYOND = 100
"""No opset and no version of IR is that new."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is wrong."""

    what: str
    """One sentence."""
    command: str | None = None
    """What mends it; None where no package does."""


class Installed(msgspec.Struct, frozen=True):
    """A distribution that owns files of the module onnxruntime."""

    name: str
    version: str
    files: int
    missing: int
    """Files that its record lists and that are not there."""
    changed: int
    """Files that are there, but not those of its record."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def state(self) -> str:
        """What became of its files."""
        if not self.missing + self.changed:
            return f"all {self.files} files whole"
        return f"of {self.files} files {self.missing} missing, {self.changed} changed"


class Loads(msgspec.Struct, frozen=True):
    """What the ONNX Runtime loads; measured by loading."""

    opset: int | None
    """The newest, going up from onnxgather's oldest; None where that is refused."""
    ir: int | None
    """The newest version of IR, going up from onnxgather's oldest."""


class Environment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Python environment, as `installed.look` and a worker see it."""

    python: str
    """The interpreter, as the user named it."""
    folders: tuple[str, ...] = ()
    """Where Python finds the module onnxruntime."""
    empty: bool = False
    """Whether there is no code in it."""
    built_as: str | None = None
    """What the module is by its own account, such as `onnxruntime-openvino 1.24.1`."""
    shared: int = 0
    """Files that several distributions own."""
    wheels: tuple[Installed, ...] = ()
    versions: dict[str, str] = {}
    pip: bool = True
    platform: str = ""
    providers: tuple[str, ...] = ()
    """Those that the ONNX Runtime lists, which proves nothing."""
    fault: str | None = None
    """Why no gather runs on the CPU provider."""
    loads: Loads | None = None
    """None where there is a fault."""

    def install(self, *requirements: str, flags: str = "") -> str:
        """Return the command that installs something here."""
        named = " ".join(_quoted(requirement) for requirement in requirements)
        return f"{self._pip('install')}{flags} {named}"

    def bring(self, wheel: Wheel) -> str:
        """Return the command that installs a wheel instead of those that own the module."""
        others = [owner.name for owner in self.wheels if owner.name != wheel.name]
        if wheel.beside or not others:
            return self.install(wheel.requirement)
        return f"{self._remove(others)} && {self.install(wheel.requirement)}"

    def findings(self, provider: str) -> list[Finding]:
        """Return what is wrong with the environment itself.

        Args:
            provider: The full name of what is wanted of it.
        """
        wheel = WHEELS.get(provider, WHEELS[CPU])
        owners, loaded = self.wheels, self.versions.get("onnxruntime")
        if not self.versions:
            return [Finding(f"{self.fault}")]
        if "numpy" not in self.versions:
            what = f"{self.python}: numpy is not installed"
            return [Finding(what, self.install("numpy>=1.26"))]
        if not owners and (not self.folders or self.empty):
            what = "ONNX Runtime is not installed"
            if self.folders:
                what += f"; {self.folders[0]} is what an uninstalled wheel left, an empty module"
            none = wheel.why_none(self.platform, self.versions["python"])
            if none:
                return [Finding(f"{self.python}: {what}; {none}")]
            return [Finding(f"{self.python}: {what}", self.bring(wheel))]
        if self.shared:
            return [self._conflict()]
        for owner in owners:
            if owner.missing:
                what = f"{owner} is half removed: {owner.state}"
                if self.empty:
                    what += "; the module onnxruntime is empty"
                pinned = f"{owner.name}=={owner.version}"
                command = self.install(pinned, flags=" --force-reinstall --no-deps")
                return [Finding(f"{self.python}: {what}", command)]
        if loaded and _older(loaded, OLDEST_RUNTIME):
            what = (
                f"ONNX Runtime {loaded} does not tell which provider ran a node; "
                f"{OLDEST_RUNTIME} and later do"
            )
            return [Finding(f"{self.python}: {what}", self._newer())]
        if self.fault:
            what = f"{self.python}: ONNX Runtime runs no gather on its CPU provider: {self.fault}"
            return [Finding(what, self._again())]
        return list(self._refused_opsets())

    def _refused_opsets(self) -> Iterator[Finding]:
        newest = (self.loads and self.loads.opset) or 0
        for opset, what in ((DEFAULT_OPSET, "default"), (OPSETS[-1], "newest")):
            if newest < opset:
                what = f"ONNX Runtime does not load opset {opset}, onnxgather's {what}"
                yield Finding(f"{self.python}: {what}", self._newer())

    def _conflict(self) -> Finding:
        owners = " and ".join(map(str, self.wheels))
        states = "; ".join(f"{owner.name}: {owner.state}" for owner in self.wheels)
        keep = self._kept()
        what = (
            f"{self.python}: {owners} overwrite one another, as {self.shared} files belong to "
            f"both ({states}); what lies there says it is {self.built_as or 'nothing'}, "
            f"and loads as {self.versions.get('onnxruntime', 'nothing')}"
        )
        names = [owner.name for owner in self.wheels]
        again = self.install(f"{keep.name}=={keep.version}")
        return Finding(what, f"{self._remove(names)} && {again}")

    def _kept(self) -> Installed:
        """Return the wheel to keep: what lies there, but a plain one only if there is no other.

        Every other wheel has the CPU provider too, so somebody wanted what it has beyond.
        """
        special = [owner for owner in self.wheels if owner.name != "onnxruntime"] or self.wheels
        return next((owner for owner in special if str(owner) == self.built_as), special[0])

    def _newer(self) -> str | None:
        known = {wheel.name: wheel for wheel in WHEELS.values()}
        found = [known[owner.name] for owner in self.wheels if owner.name in known]
        return self.install(found[0].requirement, flags=" --upgrade") if found else None

    def _again(self) -> str | None:
        if "DLL load failed" in (self.fault or ""):  # the cause that ONNX Runtime documents
            return "winget install --id Microsoft.VCRedist.2015+.x64"
        pinned = [f"{owner.name}=={owner.version}" for owner in self.wheels]
        return self.install(*pinned, flags=" --force-reinstall") if pinned else None

    def _remove(self, names: list[str]) -> str:
        yes = " -y" if self.pip else ""
        return f"{self._pip('uninstall')}{yes} {' '.join(names)}"

    def _pip(self, verb: str) -> str:
        python = _quoted(self.python)
        return f"{python} -m pip {verb}" if self.pip else f"uv pip {verb} --python {python}"


def look_at(python: str) -> Environment:
    """Return what an environment has, and what it loads.

    Args:
        python: Its interpreter.
    """
    command = [python, installed.__file__]
    try:
        said = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=True).stdout
        fields: dict[str, Any] = json.loads(said)
    except (OSError, subprocess.SubprocessError, ValueError):
        fields = {}  # the worker says what is wrong with it
    worker = Worker(python, TIMEOUT)
    fault, loads = None, None
    try:
        worker.start()
        fault = _fault(worker)
        loads = None if fault else Loads(_newest_opset(worker), _newest_ir(worker))
    except WorkerError as error:
        fault = str(error)
    finally:
        worker.close()
    fields["versions"] = fields.get("versions", {}) | worker.about.get("versions", {})
    told = {"providers": worker.about.get("providers", ()), "fault": fault, "loads": loads}
    return msgspec.convert({**fields, **told, "python": python}, Environment)


def _fault(worker: Worker) -> str | None:
    """Return why no gather runs on the CPU provider, None if one does."""
    answer = _load(worker, DEFAULT_OPSET, OLDEST_IR)
    kind, detail = answer.get("not-run", ("", ""))
    if kind == "absent":
        return f"it has {detail} only"
    return detail or kind or None


def _newest_opset(worker: Worker) -> int | None:
    opsets = range(OPSETS[0], BEYOND)
    loaded = takewhile(lambda opset: "nodes" in _load(worker, opset, OLDEST_IR), opsets)
    return max(loaded, default=None)


def _newest_ir(worker: Worker) -> int | None:
    versions = range(OLDEST_IR, BEYOND)
    loaded = takewhile(lambda ir: "nodes" in _load(worker, OPSETS[0], ir), versions)
    return max(loaded, default=None)


def _load(worker: Worker, opset: int, ir: int) -> dict[str, Any]:
    """Return what the CPU provider answers to a gather written so."""
    data, indices = np.zeros(4, np.float32), np.zeros(2, np.int64)
    model = bare_model("Gather", {"axis": 0}, data, indices, [2], opset)
    model.ir_version = ir
    content = model.SerializeToString()
    request: dict[str, object] = {"model": len(content), "provider": CPU, "threads": 1}
    return worker.ask({**request, "library": None, "feeds": []}, content)[0]


def _older(version: str, than: str) -> bool:
    try:
        return Version(version) < Version(than)
    except InvalidVersion:  # somebody's own build
        return False


def _quoted(text: str) -> str:
    """Return an argument as every shell takes it."""
    return f'"{text}"' if set(text) & set(" <>[]&()") else text
