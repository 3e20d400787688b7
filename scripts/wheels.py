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

MACHINES = {"x86_64": "i386:x86-64", "aarch64": "arm64"}
"""The names of dlltool for the processors of Windows, by zig's names."""


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
    library = folder / "python3.lib"
    machine = MACHINES[target.partition("-")[0]]
    run([*ZIG, "dlltool", "-m", machine, "-d", str(exports), "-l", str(library)], {})
    return library


def run(command: Sequence[str], variables: dict[str, str]) -> None:
    """Run a command in the checkout; its last line is the error if it fails."""
    environment = os.environ | variables
    finished = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if finished.returncode != 0:
        lines = (finished.stderr + finished.stdout).strip().splitlines()
        last_line = lines[-1] if lines else f"{command[0]} failed"
        raise BuildError(last_line)


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
        library = import_library(folder, target)
        variables["LDFLAGS"] += " " + shlex.quote(f"-L{library.parent}")
    wheels = folder / "wheels"
    run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        variables,
    )
    (wheel,) = wheels.iterdir()
    return wheel


def main() -> int:
    """Make the wheels; the exit code is 1 if one is not as it must be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--platform", action="append", metavar="TAG", help=", ".join(PLATFORMS)
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    tags: list[str] = list(dict.fromkeys(options.platform or PLATFORMS))
    unknown = [tag for tag in tags if tag not in PLATFORMS]
    if unknown:
        return refuse(
            f"a platform must be one of {', '.join(PLATFORMS)}, got {unknown[0]}"
        )
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        return refuse(f"{missing[0]} is not installed: pip install -e '.[wheels]'")
    log = Log()

    def is_right(tag: str) -> bool:
        return build_and_read_back(tag, options.output, log)

    try:
        options.output.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            rights = list(pool.map(is_right, tags))
    except OSError as error:
        return refuse(f"{error.filename}: {error.strerror}")
    except BuildError as error:
        return refuse(f"{error}", 1)
    count = rights.count(True)
    refused = rights.count(False)
    wheels = "wheel" if count == 1 else "wheels"
    line = f"{count} {wheels} in {options.output}"
    if refused:
        line += f", {refused} refused"
    log.say(line)
    return 1 if refused else 0


class Log:
    """Lines with the seconds since the beginning."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line."""
        seconds = time.monotonic() - self.started
        print(f"{seconds:5.0f} s  {text}", flush=True)


def build_and_read_back(tag: str, output: Path, log: Log) -> bool:
    """Build the wheel of a platform; keep it if it is as it must be.

    Returns:
        Whether the wheel was kept.
    """
    log.say(f"{tag}: compiling")
    with TemporaryDirectory(prefix=".wheels-", dir=output) as folder:
        try:
            wheel = build(tag, Path(folder))
        except BuildError as error:
            raise BuildError(f"{tag}: {error}") from None
        log.say(f"{tag}: reading back")
        faults_of_wheel = faults(wheel, tag)
        for fault in faults_of_wheel:
            log.say(f"{tag}: {fault}")
        if faults_of_wheel:
            return False
        os.replace(wheel, output / wheel.name)
        log.say(f"{tag}: {wheel.name}; {PLATFORMS[tag].ran}")
    return True


def refuse(sentence: str, code: int = 2) -> int:
    """Say why there are no wheels; return the exit code."""
    print(f"wheels.py: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
