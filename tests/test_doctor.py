"""The doctor: what it finds in environments made to be ill, and the commands that mend them."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

import msgspec
import numpy as np
import pytest
from stub_runtime import STUB

import onnxgather as og
from onnxgather.doctor import installed
from onnxgather.doctor.checkup import Asked, Checkup, Examination, Examined
from onnxgather.doctor.environment import Environment, Finding, Installed, Loads, look_at
from onnxgather.doctor.examination import CASES, examine
from onnxgather.doctor.wheels import LIBRARIES, PLUGINS, REMOTE, WHEELS
from onnxgather.errors import ProviderError
from onnxgather.lanes.lane import LaneInfo
from onnxgather.model import to_onnx
from onnxgather.parity.results import Result
from onnxgather.providers import PROVIDERS

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in interpreter is a shell script"
)

CPU = "CPUExecutionProvider"
PLATFORM = sysconfig.get_platform()
PYTHON = ".".join(map(str, sys.version_info[:3]))

# A runtime with the CPU provider that loads opset 25 and IR 13 and computes the three gathers.
RUNTIME = (
    STUB
    + """
__version__ = "1.31.1"
PROVIDERS = ["CPUExecutionProvider"]
OPSET, IR = 25, 13
class ExecutionMode: ORT_SEQUENTIAL = 0
def place(provider, wrapped, operator): return provider
def value(provider, array): return array
class InferenceSession(InferenceSession):
    def __init__(self, model, options, providers, enable_fallback):
        self.provider = providers[0]
        self.wrapped = b"Mul" in model
        self.operator = max((o for o in ("Gather", "GatherElements", "GatherND")
                             if o.encode() in model), key=len)
        opset, ir = model[model.rindex(b"B\\x02\\x10") + 3], model[1]
        if opset > OPSET: raise RuntimeError(f"opset {opset} is too new")
        if ir > IR: raise RuntimeError(f"IR {ir} is too new")
        self.open()
    def get_provider_graph_assignment_info(self):
        names = ["Mul", self.operator, "Mul"] if self.wrapped else [self.operator]
        nodes = [Any_(name=name, op_type=name) for name in names]
        return [Any_(ep_name=place(self.provider, self.wrapped, self.operator),
                     get_nodes=lambda: nodes)]
    def compute(self, data, indices):
        if self.operator == "GatherElements":
            return value(self.provider, np.take_along_axis(data, indices, 1))
        if self.operator == "GatherND":
            indices = indices[..., 0]
        return value(self.provider, data[indices])
"""
)


class Home:
    """An environment in a folder: an interpreter, numpy, and whatever is put there."""

    def __init__(self, folder: Path, *, pip: bool = True, numpy: bool = True) -> None:
        self.site = folder / "site"
        self.site.mkdir(parents=True)
        self.python = str(folder / "python")
        if pip:
            (self.site / "pip").mkdir()
            (self.site / "pip" / "__init__.py").touch()
        if numpy:
            found = Path(np.__file__).parent.parent
            for path in [found / "numpy", *found.glob("numpy.libs"), *found.glob("numpy-*")]:
                (self.site / path.name).symlink_to(path)
        script = f'#!/bin/sh\nPYTHONPATH="{self.site}" exec "{sys.executable}" -S "$@"\n'
        Path(self.python).write_text(script, encoding="utf-8")
        Path(self.python).chmod(0o755)

    def module(self, change: str = "", built: str = "onnxruntime 1.31.1") -> None:
        """Put the stand-in there."""
        name, version = built.split()
        self.write("onnxruntime/__init__.py", RUNTIME + change)
        said = f"package_name = {name!r}\n__version__ = {version!r}\n"
        self.write("onnxruntime/capi/build_and_package_info.py", said)

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def own(self, name: str, version: str, *others: str, folder: str = "") -> None:
        """Let a distribution own the files of the module that are there now, and others."""
        info = folder or f"{name.replace('-', '_')}-{version}.dist-info"
        lines = [f"{info}/METADATA,,", f"{info}/RECORD,,"]
        for path in sorted((self.site / "onnxruntime").rglob("*.py")):
            content = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            place = path.relative_to(self.site).as_posix()
            lines.append(f"{place},sha256={digest.rstrip('=')},{len(content)}")
        lines += [f"{other},sha256=AAAA,4" for other in others]
        lines.append("onnxruntime/__pycache__/__init__.cpython-311.pyc,,")
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        self.write(f"{info}/RECORD", "\n".join(lines) + "\n")

    def healthy(self, change: str = "") -> Home:
        """Put the stand-in there, owned by one distribution."""
        self.module(change)
        self.own("onnxruntime", "1.31.1")
        return self

    def findings(self, provider: str = CPU) -> list[tuple[str, str | None]]:
        """Return what is wrong with the environment, its interpreter called PYTHON."""
        return self.told(look_at(self.python).findings(provider))

    def told(self, findings: list[Finding] | tuple[Finding, ...]) -> list[tuple[str, str | None]]:
        """Return findings with the interpreter called PYTHON, the folder SITE."""

        def short(text: str) -> str:
            return text.replace(self.python, "PYTHON").replace(str(self.site), "SITE")

        return [(short(f.what), f.command and short(f.command)) for f in findings]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


class TestWheels:
    @pytest.mark.parametrize(
        ("provider", "platform", "python", "why"),
        [
            (CPU, "win-arm64", "3.14.0", None),
            (CPU, "linux-aarch64", "3.11.7", None),
            (CPU, "macosx-14.0-arm64", "3.12.1", None),
            ("DmlExecutionProvider", "win-amd64", "3.14.1", None),
            (
                "DmlExecutionProvider",
                "win-arm64",
                "3.12.0",
                "onnxruntime-directml exists for Windows on x64 only, not for win-arm64",
            ),
            (
                "DmlExecutionProvider",
                "linux-x86_64",
                "3.12.0",
                "onnxruntime-directml exists for Windows on x64 only, not for linux-x86_64",
            ),
            (
                "DmlExecutionProvider",
                "win-amd64",
                "3.15.0",
                "onnxruntime-directml exists up to Python 3.14, not for 3.15",
            ),
            ("OpenVINOExecutionProvider", "linux-x86_64", "3.13.2", None),
            (
                "OpenVINOExecutionProvider",
                "linux-x86_64",
                "3.14.0",
                "onnxruntime-openvino exists up to Python 3.13, not for 3.14",
            ),
            (
                "CUDAExecutionProvider",
                "linux-aarch64",
                "3.12.0",
                "onnxruntime-gpu exists for Windows and Linux on x64 only, not for linux-aarch64",
            ),
            (
                "QNNExecutionProvider",
                "linux-x86_64",
                "3.12.0",
                "onnxruntime-qnn exists for Windows only, not for linux-x86_64",
            ),
            (
                "CoreMLExecutionProvider",
                "win-amd64",
                "3.12.0",
                "onnxruntime exists for macOS only, not for win-amd64",
            ),
        ],
    )
    def test_where_a_wheel_exists(
        self, provider: str, platform: str, python: str, why: str | None
    ) -> None:
        assert WHEELS[provider].why_none(platform, python) == why

    def test_every_provider_that_has_a_short_name_has_a_wheel(self) -> None:
        names = {provider.name for provider in PROVIDERS.values()}
        assert names == set(WHEELS)
        assert names.isdisjoint(REMOTE)
        assert LIBRARIES | set(PLUGINS) <= names


class TestTheModule:
    def test_one_distribution(self, home: Home) -> None:
        found = look_at(home.healthy().python)
        assert found == Environment(
            home.python,
            (str(home.site / "onnxruntime"),),
            False,
            "onnxruntime 1.31.1",
            0,
            (Installed("onnxruntime", "1.31.1", 2, 0, 0),),
            {"numpy": np.__version__, "python": PYTHON, "onnxruntime": "1.31.1"},
            True,
            PLATFORM,
            (CPU,),
            None,
            Loads(25, 13),
        )
        assert found.findings(CPU) == []

    def test_none(self, home: Home) -> None:
        what = "PYTHON: ONNX Runtime is not installed"
        command = 'PYTHON -m pip install "onnxruntime>=1.24.4"'
        assert home.findings() == [(what, command)]

    @pytest.mark.parametrize("safe", ["", "1"])
    def test_the_users_path_counts_where_python_adds_none(self, home: Home, safe: str) -> None:
        home.healthy()
        done = subprocess.run(
            [home.python, installed.__file__],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONSAFEPATH": safe},
        )
        found = msgspec.json.decode(done.stdout)
        assert found["folders"] == [str(home.site / "onnxruntime")]

    def test_none_where_uv_made_the_environment(self, tmp_path: Path) -> None:
        home = Home(tmp_path / "home", pip=False)
        what = "PYTHON: ONNX Runtime is not installed"
        command = 'uv pip install --python PYTHON "onnxruntime>=1.24.4"'
        assert home.findings() == [(what, command)]

    def test_none_where_the_path_has_a_space(self, tmp_path: Path) -> None:
        home = Home(tmp_path / "my home")
        what = "PYTHON: ONNX Runtime is not installed"
        command = '"PYTHON" -m pip install "onnxruntime>=1.24.4"'
        assert home.findings() == [(what, command)]

    def test_none_and_no_wheel_for_what_is_wanted(self, home: Home) -> None:
        what = (
            "PYTHON: ONNX Runtime is not installed; onnxruntime-directml exists for Windows on "
            f"x64 only, not for {PLATFORM}"
        )
        assert home.findings("DmlExecutionProvider") == [(what, None)]

    def test_a_folder_that_an_uninstalled_wheel_left(self, home: Home) -> None:
        home.write("onnxruntime/capi/left.txt", "")
        what = (
            "PYTHON: ONNX Runtime is not installed; SITE/onnxruntime is what an uninstalled "
            "wheel left, an empty module"
        )
        command = 'PYTHON -m pip install "onnxruntime>=1.24.4"'
        assert home.findings() == [(what, command)]

    def test_nobodys_module_that_works(self, home: Home) -> None:
        home.module()
        found = look_at(home.python)
        assert found.wheels == ()
        assert found.findings(CPU) == []

    def test_two_distributions(self, home: Home) -> None:
        home.module()
        home.own("onnxruntime", "1.31.1")
        home.write("onnxruntime/capi/openvino.py", "")
        home.module("# another\n", "onnxruntime-openvino 1.24.1")
        home.own("onnxruntime-openvino", "1.24.1")
        what = (
            "PYTHON: onnxruntime 1.31.1 and onnxruntime-openvino 1.24.1 overwrite one another, as "
            "2 files belong to both (onnxruntime: of 2 files 0 missing, 2 changed; "
            "onnxruntime-openvino: all 3 files whole); what lies there says it is "
            "onnxruntime-openvino 1.24.1, and loads as 1.31.1"
        )
        command = (
            "PYTHON -m pip uninstall -y onnxruntime onnxruntime-openvino && "
            "PYTHON -m pip install onnxruntime-openvino==1.24.1"
        )
        assert home.findings() == [(what, command)]

    def test_a_plain_one_over_a_special_one(self, tmp_path: Path) -> None:
        home = Home(tmp_path / "home", pip=False)
        home.module()
        home.own("onnxruntime-directml", "1.24.4", "onnxruntime/capi/DirectML.dll")
        home.own("onnxruntime", "1.31.1")
        what = (
            "PYTHON: onnxruntime 1.31.1 and onnxruntime-directml 1.24.4 overwrite one another, as "
            "2 files belong to both (onnxruntime: all 2 files whole; onnxruntime-directml: of 3 "
            "files 1 missing, 0 changed); what lies there says it is onnxruntime 1.31.1, and "
            "loads as 1.31.1"
        )
        command = (
            "uv pip uninstall --python PYTHON onnxruntime onnxruntime-directml && "
            "uv pip install --python PYTHON onnxruntime-directml==1.24.4"
        )
        assert home.findings() == [(what, command)]

    def test_of_two_special_ones_the_one_that_lies_there_stays(self, home: Home) -> None:
        home.module(built="onnxruntime-openvino 1.24.1")
        home.own("onnxruntime-gpu", "1.31.1")
        home.own("onnxruntime-openvino", "1.24.1")
        ((_, command),) = home.findings()
        assert command is not None
        assert command.endswith(" && PYTHON -m pip install onnxruntime-openvino==1.24.1")

    def test_distributions_that_share_no_file(self, home: Home) -> None:
        home.healthy()
        home.write("onnxruntime_extra-1.dist-info/METADATA", "Name: onnxruntime-extra\nVersion: 1")
        home.write("onnxruntime_extra-1.dist-info/RECORD", "onnxruntime/capi/extra.so,,")
        home.write("onnxruntime/capi/extra.so", "")
        found = look_at(home.python)
        assert [wheel.name for wheel in found.wheels] == ["onnxruntime", "onnxruntime-extra"]
        assert found.findings(CPU) == []

    def test_one_of_two_was_uninstalled(self, home: Home) -> None:
        home.healthy()
        for path in (home.site / "onnxruntime").rglob("*.py"):
            path.unlink()
        home.write("onnxruntime/LICENSE", "")
        what = (
            "PYTHON: onnxruntime 1.31.1 is half removed: of 2 files 2 missing, 0 changed; the "
            "module onnxruntime is empty"
        )
        command = "PYTHON -m pip install --force-reinstall --no-deps onnxruntime==1.31.1"
        assert home.findings() == [(what, command)]

    def test_all_files_are_gone_but_the_record(self, home: Home) -> None:
        home.module()
        home.own("onnxruntime-openvino", "1.24.1")
        for path in (home.site / "onnxruntime").rglob("*.py"):
            path.unlink()
        (home.site / "onnxruntime" / "capi").rmdir()
        (home.site / "onnxruntime").rmdir()
        what = (
            "PYTHON: onnxruntime-openvino 1.24.1 is half removed: of 2 files 2 missing, 0 changed"
        )
        command = "PYTHON -m pip install --force-reinstall --no-deps onnxruntime-openvino==1.24.1"
        assert home.findings() == [(what, command)]

    def test_a_file_is_missing(self, home: Home) -> None:
        home.module()
        home.own("onnxruntime", "1.31.1", "onnxruntime/capi/onnxruntime_pybind11_state.so")
        what = "PYTHON: onnxruntime 1.31.1 is half removed: of 3 files 1 missing, 0 changed"
        command = "PYTHON -m pip install --force-reinstall --no-deps onnxruntime==1.31.1"
        assert home.findings() == [(what, command)]

    def test_a_changed_file_is_told_and_no_finding(self, home: Home) -> None:
        home.healthy().module("# mended by hand\n")
        found = look_at(home.python)
        assert found.wheels == (Installed("onnxruntime", "1.31.1", 2, 0, 1),)
        assert found.findings(CPU) == []

    def test_what_pip_leaves_on_windows_owns_nothing(self, home: Home) -> None:
        home.healthy()
        home.own("onnxruntime", "1.20.0", folder="~nxruntime-1.20.0.dist-info")
        assert look_at(home.python).wheels == (Installed("onnxruntime", "1.31.1", 2, 0, 0),)

    def test_an_owner_elsewhere_on_the_path_is_hidden(self, home: Home, tmp_path: Path) -> None:
        behind = Home(tmp_path / "behind")
        behind.module()
        behind.own("onnxruntime-openvino", "1.24.1")
        home.healthy()
        script = Path(home.python).read_text(encoding="utf-8")
        script = script.replace(f'{home.site}"', f'{home.site}:{behind.site}"')
        Path(home.python).write_text(script, encoding="utf-8")
        found = look_at(home.python)
        assert found.wheels == (Installed("onnxruntime", "1.31.1", 2, 0, 0),)
        assert found.findings(CPU) == []


class TestWhatDoesNotLoad:
    def test_no_interpreter(self, tmp_path: Path) -> None:
        python = str(tmp_path / "python")
        what = f"{python} does not start: No such file or directory"
        assert look_at(python).findings(CPU) == [Finding(what)]

    def test_no_numpy(self, tmp_path: Path) -> None:
        home = Home(tmp_path / "home", numpy=False).healthy()
        what, command = "PYTHON: numpy is not installed", 'PYTHON -m pip install "numpy>=1.26"'
        assert home.findings() == [(what, command)]

    def test_a_crash(self, home: Home) -> None:
        home.healthy("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n")
        what = (
            "PYTHON: ONNX Runtime runs no gather on its CPU provider: the worker died of SIGSEGV "
            "and printed nothing"
        )
        command = "PYTHON -m pip install --force-reinstall onnxruntime==1.31.1"
        assert home.findings() == [(what, command)]

    def test_a_crash_of_nobodys_module(self, home: Home) -> None:
        home.module("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n")
        what = (
            "PYTHON: ONNX Runtime runs no gather on its CPU provider: the worker died of SIGSEGV "
            "and printed nothing"
        )
        assert home.findings() == [(what, None)]

    def test_a_missing_library_of_windows(self, home: Home) -> None:
        said = "DLL load failed while importing onnxruntime_pybind11_state: not found"
        home.healthy(f"raise ImportError({said!r})\n")
        what = f"PYTHON: ONNX Runtime runs no gather on its CPU provider: {said}"
        assert home.findings() == [(what, "winget install --id Microsoft.VCRedist.2015+.x64")]

    def test_no_cpu_provider(self, home: Home) -> None:
        home.healthy("PROVIDERS = ['OtherExecutionProvider']\n")
        what = (
            "PYTHON: ONNX Runtime runs no gather on its CPU provider: it has "
            "OtherExecutionProvider only"
        )
        command = "PYTHON -m pip install --force-reinstall onnxruntime==1.31.1"
        assert home.findings() == [(what, command)]

    def test_an_old_one(self, home: Home) -> None:
        home.healthy(
            "__version__ = '1.23.0'\ndel InferenceSession.get_provider_graph_assignment_info\n"
        )
        what = (
            "PYTHON: ONNX Runtime 1.23.0 does not tell which provider ran a node; 1.24 and later do"
        )
        command = 'PYTHON -m pip install --upgrade "onnxruntime>=1.24.4"'
        assert home.findings() == [(what, command)]

    def test_an_opset_that_it_does_not_load(self, home: Home) -> None:
        home.healthy("OPSET, IR = 24, 12\n")
        found = look_at(home.python)
        assert found.loads == Loads(24, 12)
        what = "PYTHON: ONNX Runtime does not load opset 25, onnxgather's newest"
        command = 'PYTHON -m pip install --upgrade "onnxruntime>=1.24.4"'
        assert home.told(found.findings(CPU)) == [(what, command)]

    def test_no_opset_that_onnxgather_writes(self, home: Home) -> None:
        home.module("OPSET = 12\n")
        found = look_at(home.python)
        assert found.loads == Loads(None, None)
        assert home.told(found.findings(CPU)) == [
            ("PYTHON: ONNX Runtime does not load opset 17, onnxgather's default", None),
            ("PYTHON: ONNX Runtime does not load opset 25, onnxgather's newest", None),
        ]


NAMES = ("Gather", "GatherElements", "GatherND")


def states(checkup: Checkup, number: int = 0) -> dict[str, list[tuple[str, str]]]:
    """Return, per provider, the states of its gathers alone and between others."""
    return {
        one.info.name: [(asked.alone.state, asked.between.state) for asked in one.asked]
        for one in checkup.examinations[number].providers
    }


class TestProviders:
    def test_each_case_is_one_node(self) -> None:
        for name, case in CASES.items():
            model = to_onnx(case.descriptor, case.out_of_range)
            assert [node.op_type for node in model.graph.node] == [name]

    def test_a_healthy_one(self, home: Home) -> None:
        checkup = examine(python=home.healthy().python)
        assert states(checkup) == {"cpu": [("PASS", "PASS")] * 3}
        (cpu,) = checkup.examinations[0].providers
        assert [asked.operator for asked in cpu.asked] == [*NAMES]
        assert [asked.alone.nodes for asked in cpu.asked] == [(name,) for name in NAMES]
        assert [asked.between.nodes for asked in cpu.asked] == [
            ("Mul", name, "Mul") for name in NAMES
        ]
        assert (checkup.findings, checkup.exit_code) == ((), 0)

    def test_one_that_takes_some_only_between_others(self, home: Home) -> None:
        home.healthy(
            "PROVIDERS = ['OpenVINOExecutionProvider', 'CPUExecutionProvider']\n"
            "def place(provider, wrapped, operator):\n"
            "    return provider if wrapped or operator == 'Gather' else 'CPUExecutionProvider'\n"
        )
        checkup = examine(python=home.python)
        other = ("NOT-RUN", "PASS")
        assert states(checkup)["openvino"] == [("PASS", "PASS"), other, other]
        asked = checkup.examinations[0].providers[0].asked
        assert all(each.runs for each in asked)
        reason = checkup.examinations[0].providers[0].asked[1].alone.reason
        assert reason == (
            "OpenVINOExecutionProvider must run every node, but GatherElements (GatherElements) "
            "runs on CPUExecutionProvider"
        )
        assert (checkup.findings, checkup.exit_code) == ((), 0)

    def test_one_that_by_its_nature_runs_none(self, home: Home) -> None:
        home.healthy(
            "PROVIDERS = ['AzureExecutionProvider', 'CPUExecutionProvider']\n"
            "def place(*_): return 'CPUExecutionProvider'\n"
        )
        checkup = examine(python=home.python)
        assert states(checkup) == {"AzureExecutionProvider": [], "cpu": [("PASS", "PASS")] * 3}
        azure = checkup.examinations[0].providers[0]
        assert azure.remark == "sends models to endpoints at Azure; has no operators itself"
        assert (checkup.findings, checkup.exit_code) == ((), 0)

    def test_one_that_starts_and_takes_none(self, home: Home) -> None:
        home.healthy(
            "PROVIDERS = ['XnnpackExecutionProvider', 'CPUExecutionProvider']\n"
            "def place(*_): return 'CPUExecutionProvider'\n"
        )
        checkup = examine(python=home.python)
        assert states(checkup)["XnnpackExecutionProvider"] == [("NOT-RUN", "NOT-RUN")] * 3
        assert not checkup.examinations[0].providers[0].runs
        assert (checkup.findings, checkup.exit_code) == ((), 0)

    @pytest.mark.parametrize(
        ("provider", "name", "command"),
        [
            ("DmlExecutionProvider", "directml", None),
            (
                "CUDAExecutionProvider",
                "cuda",
                "PYTHON -m pip uninstall -y onnxruntime && "
                'PYTHON -m pip install "onnxruntime-gpu[cuda,cudnn]>=1.24.4"',
            ),
        ],
    )
    def test_one_that_is_listed_and_does_not_start(
        self, home: Home, provider: str, name: str, command: str | None
    ) -> None:
        home.healthy(
            f"PROVIDERS = [{provider!r}, 'CPUExecutionProvider']\n"
            "def start(self):\n"
            "    if self.provider != 'CPUExecutionProvider': raise RuntimeError('no adapter')\n"
            "InferenceSession.open = start\n"
        )
        checkup = examine(python=home.python)
        assert states(checkup) == {name: [], "cpu": [("PASS", "PASS")] * 3}
        what = f"PYTHON: {name}: {provider} cannot start: no adapter"
        assert home.told(checkup.findings) == [(what, command)]
        assert checkup.exit_code == 1

    def test_one_that_is_wrong(self, home: Home) -> None:
        home.healthy("def value(_, array): return array + (array.shape == (2,))\n")
        checkup = examine(python=home.python)
        reason = (
            "DIFF 2 of 2 elements differ, first OutputTensor[0]: expected 3.0 (00 00 40 40), got "
            "4.0 (00 00 80 40)"
        )
        assert home.told(checkup.findings) == [(f"PYTHON: cpu: Gather: {reason}", None)] * 2
        assert checkup.exit_code == 1

    def test_one_that_crashes_costs_only_itself(self, home: Home) -> None:
        home.healthy(
            "PROVIDERS = ['OtherExecutionProvider', 'CPUExecutionProvider']\n"
            "def start(self):\n"
            "    if self.provider != 'CPUExecutionProvider': os.kill(os.getpid(), signal.SIGSEGV)\n"
            "InferenceSession.open = start\n"
        )
        checkup = examine(python=home.python)
        what = "PYTHON: OtherExecutionProvider: the worker died of SIGSEGV and printed nothing"
        assert home.told(checkup.findings) == [(what, None)]
        assert checkup.exit_code == 1

    def test_no_onnxruntime_at_all(self, home: Home) -> None:
        checkup = examine(python=home.python)
        assert checkup.examinations[0].providers == ()
        assert len(checkup.findings) == 1
        assert checkup.exit_code == 3

    def test_only_another_environment_runs(self, home: Home, tmp_path: Path) -> None:
        other = Home(tmp_path / "other").healthy()
        checkup = examine({"cpu@other": other.python}, python=home.python)
        assert states(checkup, 1) == {"cpu@other": [("PASS", "PASS")] * 3}
        assert home.told(checkup.findings) == [
            (
                "PYTHON: ONNX Runtime is not installed",
                'PYTHON -m pip install "onnxruntime>=1.24.4"',
            )
        ]
        assert checkup.exit_code == 1


class TestLanes:
    def test_a_provider_that_has_no_wheel_here(self, home: Home, tmp_path: Path) -> None:
        other = Home(tmp_path / "other").healthy()
        checkup = examine({"directml": other.python}, python=home.healthy().python)
        what = (
            "PYTHON: directml: its ONNX Runtime has CPUExecutionProvider, not "
            "DmlExecutionProvider; "
            f"onnxruntime-directml exists for Windows on x64 only, not for {PLATFORM}"
        )
        assert other.told(checkup.findings) == [(what, None)]
        assert checkup.exit_code == 1

    def test_a_provider_that_another_wheel_brings(self, home: Home, tmp_path: Path) -> None:
        other = Home(tmp_path / "other").healthy()
        checkup = examine({"cuda": other.python}, python=home.healthy().python)
        what = "PYTHON: cuda: its ONNX Runtime has CPUExecutionProvider, not CUDAExecutionProvider"
        command = (
            "PYTHON -m pip uninstall -y onnxruntime && "
            'PYTHON -m pip install "onnxruntime-gpu[cuda,cudnn]>=1.24.4"'
        )
        assert other.told(checkup.findings) == [(what, command)]

    def test_a_fault_of_the_environment_is_told_once(self, home: Home, tmp_path: Path) -> None:
        other = Home(tmp_path / "other")
        checkup = examine({"cuda": other.python}, python=home.healthy().python)
        what = "PYTHON: ONNX Runtime is not installed"
        command = 'PYTHON -m pip install "onnxruntime-gpu[cuda,cudnn]>=1.24.4"'
        assert other.told(checkup.findings) == [(what, command)]

    def test_an_interpreter_that_does_not_start(self, home: Home) -> None:
        checkup = examine({"cpu@old": "/none/python"}, python=home.healthy().python)
        what = "/none/python does not start: No such file or directory"
        assert checkup.findings == (Finding(what),)
        assert checkup.exit_code == 1

    def test_a_plugin_that_is_not_there(self, home: Home) -> None:
        checkup = examine(plugins={"webgpu": "/none/lib.so"}, python=home.healthy().python)
        what = "PYTHON: webgpu: there is no plugin library /none/lib.so"
        command = 'PYTHON -m pip install "onnxruntime-ep-webgpu>=0.4"'
        assert home.told(checkup.findings) == [(what, command)]

    def test_a_plugin_that_has_no_device(self, home: Home) -> None:
        home.healthy(
            "def get_ep_devices(): return []\ndef register_execution_provider_library(*_): pass\n"
        )
        home.write("lib.so", "")
        library = str(home.site / "lib.so")
        checkup = examine(plugins={"webgpu": library}, python=home.python)
        what = (
            "PYTHON: webgpu: the plugin library of WebGpuExecutionProvider loads, but offers no "
            "device for it"
        )
        assert home.told(checkup.findings) == [(what, None)]

    def test_the_devices_of_a_lane_are_told(self, home: Home) -> None:
        home.healthy(
            """
def device(ep, kind, vendor):
    about = Any_(type="OrtHardwareDeviceType." + kind, vendor=vendor)
    return Any_(ep_name=ep + "ExecutionProvider", device=about)
def get_ep_devices():
    return [device("CPU", "CPU", "Intel"), device("Dml", "GPU", "AMD"), device("CPU", "NPU", "X")]
"""
        )
        text = str(examine(python=home.python))
        assert "\n  cpu               starts\n    device          CPU Intel, NPU X\n" in text

    def test_a_plugin_does_not_hide_the_provider_that_is_listed(self, home: Home) -> None:
        home.healthy()
        checkup = examine(plugins={"cpu@plugin": "/none/lib.so"}, python=home.python)
        assert states(checkup) == {"cpu": [("PASS", "PASS")] * 3, "cpu@plugin": []}
        what = "PYTHON: cpu@plugin: there is no plugin library /none/lib.so"
        assert home.told(checkup.findings) == [(what, None)]

    def test_a_lane_in_this_environment_is_not_asked_twice(self, home: Home) -> None:
        checkup = examine({"cpu@own": home.python}, python=home.healthy().python)
        assert states(checkup) == {"cpu@own": [("PASS", "PASS")] * 3}

    def test_a_name_that_is_no_providers(self) -> None:
        with pytest.raises(ProviderError, match=r"^provider must be one of cpu, .*, got 'cqu'$"):
            examine({"cqu": "python"})

    def test_what_is_examined_is_told(self, home: Home, tmp_path: Path) -> None:
        other = Home(tmp_path / "other").healthy()
        seen: list[str] = []
        examine({"cpu@other": other.python}, python=home.healthy().python, seen=seen.append)
        assert seen == [home.python, "cpu", other.python, "cpu@other"]


def checkup_of(*findings: Finding) -> Checkup:
    """Return a checkup that has everything a text may hold."""
    ran = Asked(
        "Gather",
        Result("openvino", "PASS", None, ("Gather",)),
        Result("openvino", "PASS", None, ("Mul", "Gather", "Mul")),
    )
    elements = Asked(
        "GatherElements",
        Result(
            "openvino", "NOT-RUN", "OpenVINOExecutionProvider must run every node, but it sleeps"
        ),
        Result("openvino", "PASS", None, ("Mul", "GatherElements", "Mul")),
    )
    wrong = Asked("GatherND", Result("x", "DIFF", "no", ("GatherND",)), Result("x", "ERROR", "oh"))
    openvino = LaneInfo("openvino", "OpenVINOExecutionProvider", {}, ("GPU Intel", "CPU Intel"))
    environment = Environment(
        "/env/python",
        ("/env/onnxruntime",),
        False,
        "onnxruntime 1.31.1",
        314,
        (Installed("onnxruntime", "1.31.1", 317, 0, 0), Installed("odd", "1", 9, 2, 3)),
        {"numpy": "2.4.6", "python": "3.11.7", "onnxruntime": "1.31.1"},
        loads=Loads(24, 13),
    )
    azure = LaneInfo("AzureExecutionProvider", "AzureExecutionProvider")
    cuda = LaneInfo("cuda", "CUDAExecutionProvider", not_run="no adapter")
    none = Asked("Gather", Result("z", "NOT-RUN", "b"), Result("z", "NOT-RUN", "c"))
    examined = (
        Examined(openvino, (ran, elements, wrong)),
        Examined(azure, (), "sends"),
        Examined(cuda),
        Examined(LaneInfo("z", "ZExecutionProvider"), (none,)),
    )
    examinations = (
        Examination(environment, examined),
        Examination(
            Environment("/left/python", ("/left/onnxruntime",), True, versions={"python": "3.12.1"})
        ),
        Examination(
            Environment("/own/python", ("/own/onnxruntime",), versions={"python": "3.12.1"})
        ),
        Examination(Environment("/no/python", versions={"python": "3.12.1"})),
        Examination(Environment("/none/python", fault="it does not start")),
    )
    return Checkup("0.1.0", "Linux 6.1 x86_64", 28, 14, examinations, findings, 1)


COMMAND = (
    "/env/python -m pip uninstall -y onnxruntime onnxruntime-openvino && "
    "/env/python -m pip install onnxruntime-openvino==1.24.1"
)

TEXT = f"""\
onnxgather 0.1.0 on Linux 6.1 x86_64; its onnx writes up to opset 28, IR 14

/env/python: python 3.11.7, numpy 2.4.6, onnxruntime 1.31.1
  module            onnxruntime 1.31.1, all 317 files whole; odd 1, of 9 files 2 missing, 3 changed;
                    314 files belong to several
  loads             up to opset 24, IR 13; onnxgather's default opset 17: yes, its newest 25: no
  openvino          starts
    device          GPU Intel, CPU Intel
    Gather          alone: ran Gather; between two Mul: ran Mul, Gather, Mul
    GatherElements  alone: NOT-RUN OpenVINOExecutionProvider must run every node, but it sleeps;
                    between two Mul: ran Mul, GatherElements, Mul
    GatherND        alone: DIFF (GatherND) no; between two Mul: ERROR oh
  AzureExecutionProvider  sends
  cuda              does not start: no adapter
  z                 starts, but takes no gather
    Gather          alone: NOT-RUN b; between two Mul: NOT-RUN c

/left/python: python 3.12.1
  module            of no distribution, in /left/onnxruntime; the module is empty

/own/python: python 3.12.1
  module            of no distribution, in /own/onnxruntime

/no/python: python 3.12.1
  module            not installed

/none/python: does not answer

2 findings:
1.  this is a sentence of 105 characters, which is so long that it must go on in the second line of
    the text, here
    {COMMAND}
2.  short
"""


class TestText:
    def test_a_whole_one(self) -> None:
        what = (
            "this is a sentence of 105 characters, which is so long that it must go on in the "
            "second line of the text, here"
        )
        text = str(checkup_of(Finding(what, COMMAND), Finding("short")))
        assert text + "\n" == TEXT

    def test_only_commands_are_wider_than_100_columns(self) -> None:
        text = str(checkup_of(Finding("too " * 30 + "long", "do " * 60 + "it")))
        wide = [line for line in text.splitlines() if len(line) > 100]
        assert wide == ["    " + "do " * 60 + "it"]

    @pytest.mark.parametrize(
        ("findings", "last"),
        [((), "nothing is wrong"), ((Finding("bad"),), "1 finding:\n1.  bad")],
    )
    def test_the_end(self, findings: tuple[Finding, ...], last: str) -> None:
        assert str(checkup_of(*findings)).endswith("\n\n" + last)

    def test_json(self) -> None:
        checkup = checkup_of(Finding("bad", "mend"))
        text = msgspec.json.encode(checkup)
        assert msgspec.json.decode(text, type=Checkup) == checkup
        plain = msgspec.json.decode(text)
        assert plain["findings"] == [{"what": "bad", "command": "mend"}]
        assert plain["examinations"][0]["environment"]["loads"] == {"opset": 24, "ir": 13}


class TestThisEnvironment:
    def test_it_is_healthy_and_onnxruntime_stays_out(self) -> None:
        code = (
            "import sys, msgspec\n"
            "from onnxgather.doctor.examination import examine\n"
            "checkup = examine()\n"
            "assert 'onnxruntime' not in sys.modules\n"
            "sys.stdout.buffer.write(msgspec.json.encode(checkup))\n"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        checkup = msgspec.json.decode(said.stdout, type=Checkup)
        assert checkup.onnxgather == og.__version__
        assert states(checkup)["cpu"] == [("PASS", "PASS")] * 3
        found = checkup.examinations[0].environment
        (owner,) = found.wheels
        assert owner.version == distribution(owner.name).version == found.versions["onnxruntime"]
        assert (owner.missing, owner.changed) == (0, 0)
        assert str(owner) == found.built_as
        assert found.loads is not None
        assert (found.loads.opset or 0) >= 25
        assert (found.loads.ir or 0) >= 10
        assert (checkup.findings, checkup.exit_code) == ((), 0)
