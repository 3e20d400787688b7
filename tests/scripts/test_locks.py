"""The locks: they fit what the environments ask for, and have a digest of each file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest
import write_locks
from folders import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ASKED = write_locks.environments()
SYSTEMS = (("linux", "Linux"), ("darwin", "Darwin"), ("win32", "Windows"))
MACHINES = [
    {
        "python_version": python,
        "python_full_version": f"{python}.7",
        "sys_platform": sys_platform,
        "platform_system": platform_system,
    }
    for python in ("3.11", "3.12", "3.13")
    for sys_platform, platform_system in SYSTEMS
]


@dataclass(frozen=True)
class Locked:
    """A package of a lock."""

    name: str
    requirement: Requirement
    digests: list[str]

    @property
    def version(self) -> str:
        """Return its only version."""
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "=="
        return specifier.version

    def is_for(self, machine: dict[str, str]) -> bool:
        """Whether a machine gets it."""
        marker = self.requirement.marker
        return marker is None or marker.evaluate(machine)


def packages(text: str) -> list[Locked]:
    """Return the packages of a lock, or of another file with digests."""
    found: list[Locked] = []
    for line in text.replace("\\\n", " ").splitlines():
        written, *digests = line.split("--hash=")
        if not written.strip() or written.startswith("#"):
            continue
        requirement = Requirement(written.strip())
        name = canonicalize_name(requirement.name)
        found.append(Locked(name, requirement, [each.strip() for each in digests]))
    return found


def faults(text: str, asked: list[str]) -> list[str]:
    """Return what is wrong with a lock, each in a sentence."""
    there = packages(text)
    found = [
        f"{each.name} must have digests of SHA-256"
        for each in there
        if not each.digests
        or not all(re.fullmatch("sha256:[0-9a-f]{64}", one) for one in each.digests)
    ]
    for requirement in map(Requirement, asked):
        name = canonicalize_name(requirement.name)
        for machine in MACHINES:
            if requirement.marker and not requirement.marker.evaluate(machine):
                continue
            versions = [
                each.version
                for each in there
                if each.name == name and each.is_for(machine)
            ]
            if len(versions) != 1 or versions[0] not in requirement.specifier:
                got = ", ".join(versions) or "none"
                found.append(f"{requirement} must be there once, got {got}")
                break
    return found


def test_each_environment_has_its_lock_and_there_is_no_other() -> None:
    there = sorted(write_locks.FOLDER.rglob("*.*"))
    assert there == sorted(map(write_locks.path_of, ASKED))


@pytest.mark.parametrize("name", ASKED)
def test_a_lock_fits_what_its_environment_asks_for(name: str) -> None:
    assert faults(write_locks.path_of(name).read_text("utf-8"), ASKED[name]) == []


def test_an_environment_within_another_one_has_its_versions() -> None:
    for inner, outer in write_locks.WITHIN.items():
        versions: dict[str, set[str]] = {}
        for each in packages(write_locks.path_of(outer).read_text("utf-8")):
            versions.setdefault(each.name, set()).add(each.version)
        shared = [
            each
            for each in packages(write_locks.path_of(inner).read_text("utf-8"))
            if each.name in versions
        ]
        assert shared
        for each in shared:
            assert each.version in versions[each.name], each.name


def test_mistakes_planted_in_a_lock_are_told() -> None:
    digest = f"--hash=sha256:{'0' * 64}"
    asked = ["numpy>=2", "onnxruntime-directml>=1; platform_system == 'Windows'"]
    right = f"numpy==2.4 \\\n    {digest}\nonnxruntime-directml==1.24.4 {digest}\n"
    assert faults(right, asked) == []
    for change, sentence in {
        ("numpy==2.4 ", "numpy==1.26 "): "numpy>=2 must be there once, got 1.26",
        ("numpy==2.4 ", "sympy==2.4 "): "numpy>=2 must be there once, got none",
        (digest, ""): "numpy must have digests of SHA-256",
        ("sha256:", "md5:"): "numpy must have digests of SHA-256",
        (
            "numpy==2.4 ",
            "numpy==2.4 ; python_version < '3.12' ",
        ): "numpy>=2 must be there once, got none",
        ("directml==1.24.4", "directml==0.9"): (
            'onnxruntime-directml>=1; platform_system == "Windows" must be there once,'
            " got 0.9"
        ),
    }.items():
        assert faults(right.replace(*change, 1), asked) == [sentence]


def test_what_the_lanes_download_has_digests() -> None:
    for name in ("requirements.txt", "webgpu.txt"):
        text = (ROOT / "scripts" / "directml" / name).read_text("utf-8")
        assert faults(text, []) == []
        assert len(packages(text)) == 2
    lock = json.loads((ROOT / "scripts/web/package-lock.json").read_text("utf-8"))
    downloads = {name: each for name, each in lock["packages"].items() if name}
    assert "node_modules/onnxruntime-web" in downloads
    for name, each in downloads.items():
        assert re.fullmatch("sha512-.{86}==", each["integrity"]), name
    packed = re.findall(r"npm pack .*\n(.*)", (ROOT / ".ci/run").read_text("utf-8"))
    assert [re.sub("[0-9a-f]{64}", "DIGEST", line.strip()) for line in packed] == [
        'echo "DIGEST  $wpt/wpt-runner-7.0.0.tgz" | sha256sum --check --quiet'
    ]
