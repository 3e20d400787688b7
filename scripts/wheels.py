"""Makes wheels with native kernels for every platform, and reads each one back.

    python scripts/wheels.py -o dist                           all platforms
    python scripts/wheels.py --platform win_amd64 -o dist      one of them

The package's own hook (hatch_build.py) compiles, with the C compiler of zig, which the
extra `wheels` brings for all platforms. Python's headers are this machine's, with
scripts/pyconfig.h in place of the one that is for this machine alone.
scripts/wheel_checks.py reads back. This has run on Linux alone.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from wheel_checks import PLATFORMS, faults, stable_abi

ROOT = Path(__file__).parents[1]

EXTRA = ("abi3audit", "abi3info", "auditwheel", "hatchling", "lief", "ziglang")
"""The modules of the extra `wheels`."""


ZIG = (sys.executable, "-m", "ziglang")


class BuildError(Exception):
    """What is wrong with a wheel, in a sentence."""


def headers(folder: Path) -> Path:
    """Copy Python's headers into a folder, with the pyconfig.h of all platforms."""
    copy = folder / "include"
    shutil.copytree(sysconfig.get_path("include"), copy)
    shutil.copy(ROOT / "scripts" / "pyconfig.h", copy)
    return copy


def import_library(folder: Path, target: str) -> Path:
    """Make the library by which a module imports python3.dll, for a target of zig's.

    It has the stable ABI of Python 3.11, and nothing else, so that nothing else can be
    linked.
    """
    exports = folder / "python3.def"
    exports.write_text(
        "LIBRARY python3.dll\nEXPORTS\n" + "\n".join(sorted(stable_abi())) + "\n"
    )
    made = folder / "python3.lib"
    machine = {"x86_64": "i386:x86-64", "aarch64": "arm64"}[target.partition("-")[0]]
    run([*ZIG, "dlltool", "-m", machine, "-d", str(exports), "-l", str(made)], {})
    return made


def run(command: Sequence[str], variables: dict[str, str]) -> None:
    """Run a command in the checkout; its last line is the error if it fails."""
    environment = os.environ | variables
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines() or [
            f"{command[0]} failed"
        ]
        raise BuildError(said[-1])


def build(tag: str, folder: Path) -> Path:
    """Build the wheel of a platform in an empty folder; return its path."""
    target = PLATFORMS[tag].target
    variables = {
        "CC": shlex.join([*ZIG, "cc", "-mcpu=baseline", "-target", target]),
        "CFLAGS": shlex.join([f"-I{headers(folder)}"]),
        "LDFLAGS": "-s",
        "ARCHFLAGS": "",
        "ONNXGATHER_NATIVE": "1",
        "ONNXGATHER_PLATFORM": tag,
    }
    if tag.startswith("win"):
        variables["LDFLAGS"] += (
            f" {shlex.quote(f'-L{import_library(folder, target).parent}')}"
        )
    wheels = folder / "wheels"
    run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        variables,
    )
    (made,) = wheels.iterdir()
    return made


def main() -> int:
    """Make the wheels; the exit code is 1 if one is not as it must be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--platform", action="append", metavar="TAG", help=", ".join(PLATFORMS)
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    wanted: list[str] = options.platform or [*PLATFORMS]
    if unknown := [tag for tag in wanted if tag not in PLATFORMS]:
        return refuse(
            f"a platform must be one of {', '.join(PLATFORMS)}, got {unknown[0]}"
        )
    if missing := [name for name in EXTRA if find_spec(name) is None]:
        return refuse(f"{missing[0]} is not installed: pip install -e '.[wheels]'")
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)

    def make(tag: str) -> bool:
        """Make a wheel; return whether it is as it must be."""
        say(f"{tag}: compiling")
        with TemporaryDirectory(prefix=".wheels-", dir=options.output) as name:
            try:
                made = build(tag, Path(name))
            except BuildError as error:
                raise BuildError(f"{tag}: {error}") from None
            say(f"{tag}: reading back")
            found = faults(made, tag)
            for fault in found:
                say(f"{tag}: {fault}")
            if not found:
                os.replace(made, options.output / made.name)
                say(f"{tag}: {made.name}; {PLATFORMS[tag].ran}")
        return not found

    tags = [*dict.fromkeys(wanted)]
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = [*pool.map(make, tags)].count(False)
    except OSError as error:
        return refuse(f"{error.filename}: {error.strerror}")
    except BuildError as error:
        return refuse(f"{error}", 1)
    count = len(tags) - wrong
    say(
        f"{count} wheel{'s' * (count != 1)} in"
        f" {options.output}{f', {wrong} refused' * (wrong > 0)}"
    )
    return 1 if wrong else 0


def refuse(sentence: str, code: int = 2) -> int:
    """Say why there are no wheels; return the exit code."""
    print(f"wheels.py: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
