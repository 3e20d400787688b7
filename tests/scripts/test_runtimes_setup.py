"""The script that makes an environment per runtime, with a stand-in for Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT

from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

SETUP = ROOT / "scripts" / "runtimes" / "setup.sh"
MARK = ".onnxgather-runtimes"

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="setup.sh is for POSIX systems"
)

PYTHON = f"""#!/bin/bash
# Makes environments whose pip notes its arguments, and fails if NO_WHEEL is one.
case "$1 $2" in
"-m venv") ;;
*) exec {sys.executable} "$@" ;;
esac
mkdir -p "$3/bin"
cat >"$3/bin/pip" <<'PIP'
#!/bin/bash
echo "$@" >>"${{0%/*}}/../pip.txt"
for wheel; do
    [ "$wheel" != "$NO_WHEEL" ] || {{ echo "ERROR: no wheel $wheel"; echo; exit 1; }}
done
PIP
printf '#!/bin/bash\\necho "$@" >"${{0%%/*}}/../python.txt"\\n' >"$3/bin/python"
chmod +x "$3/bin/pip" "$3/bin/python"
"""


def lock(name: str) -> Path:
    """Return the path of the wheels of a runtime."""
    return ROOT / "locks" / "runtimes" / f"{name}.txt"


def setup(folder: Path, *arguments: str, **more: str) -> tuple[int, str, str]:
    """Run setup.sh; return its exit code and what it printed."""
    python = folder / "python"
    python.write_text(PYTHON, "utf-8")
    python.chmod(0o755)
    cache = str(folder / "cache")
    env = {
        "PATH": "/usr/bin:/bin",
        "XDG_CACHE_HOME": cache,
        "PYTHON": str(python),
        **more,
    }
    command = ["/bin/bash", str(SETUP), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=env)
    return ran.returncode, ran.stdout, ran.stderr


def test_it_makes_the_environments_of_the_table_and_removes_them(
    tmp_path: Path,
) -> None:
    code, out, err = setup(tmp_path)
    assert (code, err) == (0, "")
    made = tmp_path / "cache" / "onnxgather" / "runtimes"
    for name, row in OTHER_RUNTIMES.items():
        installed = (made / name / "pip.txt").read_text()
        options = "--disable-pip-version-check --require-hashes"
        assert installed == f"install {options} -r {lock(name)}\n"
        imports = (made / name / "python.txt").read_text()
        assert imports == f"-c import numpy, {','.join(row.modules)}\n"
    options = [f"--lane {name}={made / name}/bin/python" for name in OTHER_RUNTIMES]
    assert out.splitlines()[-1] == f"options of onnxgather check: {' '.join(options)}"
    # A second run makes nothing again.
    code, out, _ = setup(tmp_path)
    assert code == 0
    assert out.count(": done before\n") == len(OTHER_RUNTIMES)
    assert len((made / "tract" / "pip.txt").read_text().splitlines()) == 1
    assert setup(tmp_path, "--remove") == (0, f"removed {made}\n", "")
    assert not made.exists()


def test_a_runtime_that_cannot_be_had_stops_no_other(tmp_path: Path) -> None:
    lanes = "--lanes=opencv,tract"
    absent = str(lock("opencv"))
    code, out, err = setup(tmp_path, lanes, str(tmp_path / "made"), NO_WHEEL=absent)
    assert code == 1
    log = tmp_path / "made" / "opencv.log"
    cause = f"ERROR: no wheel {absent} (full output: {log})"
    assert f"\nopencv cannot be had: {cause}\n" in out
    python = tmp_path / "made" / "tract" / "bin" / "python"
    assert out.endswith(f"\noptions of onnxgather check: --lane tract={python}\n")
    assert err == (
        "setup.sh: opencv cannot be had, for the reasons above (run again to go on)\n"
    )
