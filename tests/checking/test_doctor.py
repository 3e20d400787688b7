"""The doctor: what it finds in environments made to be ill, and the commands that mend
them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import distribution, requires
from pathlib import Path
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
from fake_compiler import library_of
from fake_directml import done, fake_folder
from messages import rows_of
from packaging.requirements import Requirement
from planted_adapter import planted
from rings import quick_alone
from stub_runtime import STUB

import onnxgather as og
from onnxgather.checking import doctor
from onnxgather.checking.doctor import (
    CASES,
    Checkup,
    Environment,
    Finding,
    Wheel,
    examine,
    look_at,
    try_kernels,
)
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution import kernels, runtime
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.model.write import descriptor_model

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in interpreter is a shell script"
)

CPU = "CPUExecutionProvider"
PYTHON = ".".join(map(str, sys.version_info[:3]))
NONE = "cpu: PYTHON has no onnxruntime; install onnxruntime>=1.24.4 there"

# A runtime with the CPU provider that computes the three gathers.
RUNTIME = (
    STUB
    + """
__version__ = "1.31.1"
PROVIDERS = ["CPUExecutionProvider"]
class ExecutionMode: ORT_SEQUENTIAL = 0
def place(provider, wrapped, operator): return provider
def value(provider, array): return array
class InferenceSession(InferenceSession):
    def __init__(self, model, options, providers, enable_fallback):
        self.provider = providers[0]
        self.wrapped = b"Mul" in model
        self.operator = max((o for o in ("Gather", "GatherElements", "GatherND")
                             if o.encode() in model), key=len)
        self.open()
    def get_provider_graph_assignment_info(self):
        names = ["Mul", self.operator, "Mul"] if self.wrapped else [self.operator]
        nodes = [Any_(name=name, op_type=name) for name in names]
        return [Any_(ep_name=place(self.provider, self.wrapped, self.operator),
                     get_nodes=lambda: nodes)]
    def compute(self, data, indices):
        if self.operator == "GatherElements":
            return value(self.provider, np.take_along_axis(data, indices, 0))
        if self.operator == "GatherND":
            indices = indices[..., 0]
        return value(self.provider, data[indices])
"""
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where no host was made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


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
            for path in [
                found / "numpy",
                *found.glob("numpy.libs"),
                *found.glob("numpy-*"),
            ]:
                (self.site / path.name).symlink_to(path)
        script = (
            f'#!/bin/sh\nPYTHONPATH="{self.site}" exec "{sys.executable}" -S "$@"\n'
        )
        Path(self.python).write_text(script, "utf-8")
        Path(self.python).chmod(0o755)

    def module(self, change: str = "", version: str = "1.31.1") -> None:
        """Put the stand-in there, in two files."""
        self.write(
            "onnxruntime/__init__.py", f"{RUNTIME}__version__ = {version!r}\n{change}"
        )
        self.write("onnxruntime/capi/state.py", "")

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def own(self, name: str, version: str, *others: str, folder: str = "") -> None:
        """Let a distribution own the files of the module that are there now, and
        others."""
        info = folder or f"{name.replace('-', '_')}-{version}.dist-info"
        lines = [f"{info}/METADATA,,", f"{info}/RECORD,,"]
        there = sorted((self.site / "onnxruntime").rglob("*.py"))
        files = [path.relative_to(self.site).as_posix() for path in there]
        lines += [f"{file},sha256=AAAA,4" for file in (*files, *others)]
        lines.append("onnxruntime/__pycache__/__init__.cpython-311.pyc,,")
        self.write(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        )
        self.write(f"{info}/RECORD", "\n".join(lines) + "\n")

    def healthy(self, change: str = "") -> Home:
        """Put the stand-in there, owned by one distribution."""
        self.module(change)
        self.own("onnxruntime", "1.31.1")
        return self

    def finding(self, provider: str = CPU) -> tuple[str, str | None] | None:
        """What is wrong with the environment, its interpreter called PYTHON."""
        lane = () if provider == CPU else (provider,)
        found = examine(dict.fromkeys(lane, self.python), python=self.python).findings
        assert len(found) < 2
        return self.told(found)[0] if found else None

    def told(self, findings: Iterable[Finding]) -> list[tuple[str, str | None]]:
        """Return findings with the interpreter called PYTHON."""

        def short(text: str) -> str:
            return text.replace(self.python, "PYTHON")

        return [(short(f.what), f.command and short(f.command)) for f in findings]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_the_table_has_the_wheels_of_the_extras() -> None:
    wanted = [Requirement(text) for text in requires("onnxgather") or ()]
    for extra in ("cpu", "directml", "openvino"):
        wheel = Requirement(PROVIDERS[extra].wheel)
        (same,) = [one for one in wanted if one.name == wheel.name]
        assert same.specifier == wheel.specifier
        assert f'extra == "{extra}"' in str(same.marker).replace("'", '"')


INSTALL = 'PYTHON -m pip install "onnxruntime>=1.24.4"'
CRASH = "os.kill(os.getpid(), signal.SIGSEGV)"
CRASHED = "the worker died of SIGSEGV and printed nothing"
LESS = "del InferenceSession{0}.get_provider_graph_assignment_info\n"
OLD = LESS.format("") + LESS.format(".__base__")
TOO_OLD = (
    "CPUExecutionProvider must say which nodes it ran, which ONNX Runtime 1.23.0 does"
    " not record; install 1.24.4 or later"
)
DLL = "DLL load failed while importing onnxruntime_pybind11_state: not found"


class Ill(msgspec.Struct, forbid_unknown_fields=True):
    """An environment, what is wrong with it, and the command that mends it."""

    what: str = ""
    """Without it the environment is healthy."""
    command: str | None = None
    module: bool = True
    """Whether the stand-in is there."""
    change: str = ""
    """The change to the stand-in."""
    owners: Sequence[str] = ()
    """Names, versions and further files."""
    version: str = "1.31.1"
    """That of the module."""
    lost: str = "none"
    """The pattern of the files that are removed then."""
    left: str = ""
    """The file that is written then."""
    provider: str = CPU
    pip: bool = True


ILL = msgspec.toml.decode(
    f"""
["no module"]
module = false
what = '{NONE}'
command = '{INSTALL}'

["no module, uv"]
module = false
pip = false
what = '{NONE}'
command = 'uv pip install --python PYTHON "onnxruntime>=1.24.4"'

["no module under a plugin"]
module = false
provider = "QNNExecutionProvider"
what = '''
QNNExecutionProvider: the environment of QNNExecutionProvider does not contain
ONNX Runtime; install onnxruntime-qnn'''
command = 'PYTHON -m pip install "onnxruntime-qnn>=2.7"'

["no module, and no wheel on this system"]
module = false
provider = "DmlExecutionProvider"
what = '''
DmlExecutionProvider: the environment of DmlExecutionProvider does not contain
ONNX Runtime; install onnxruntime-directml on Windows, or run
scripts/directml/setup.sh on Linux'''

["an empty module"]
module = false
left = "onnxruntime/capi/left.txt"
what = '''
cpu: the module onnxruntime is empty, as uninstalling one of its wheels leaves
it; reinstall onnxruntime'''
command = '{INSTALL}'

["no owner"]

["two owners"]
owners = ["onnxruntime 1.31.1", "onnxruntime-openvino 1.24.1"]
what = '''
onnxruntime 1.31.1 (2 files, 0 missing) and onnxruntime-openvino 1.24.1
(2 files, 0 missing) overwrite one another: 2 files belong to several; the module
loads as 1.31.1'''
command = '''
PYTHON -m pip uninstall -y onnxruntime onnxruntime-openvino &&
PYTHON -m pip install onnxruntime-openvino==1.24.1'''

["two owners and a crash"]
change = '{CRASH}'
owners = ["onnxruntime-gpu 1.31.1 onnxruntime/capi/gone.so", "onnxruntime 1.31.1"]
what = '''
onnxruntime 1.31.1 (2 files, 0 missing) and onnxruntime-gpu 1.31.1 (3 files,
1 missing) overwrite one another: 2 files belong to several; the module does not load:
{CRASHED}'''
command = '''
PYTHON -m pip uninstall -y onnxruntime onnxruntime-gpu &&
PYTHON -m pip install onnxruntime-gpu==1.31.1'''

["a plain and a special owner, uv"]
pip = false
owners = [
  "onnxruntime-directml 1.24.4 onnxruntime/capi/DirectML.dll",
  "onnxruntime 1.31.1",
]
what = '''
onnxruntime 1.31.1 (2 files, 0 missing) and onnxruntime-directml 1.24.4
(3 files, 1 missing) overwrite one another: 2 files belong to several; the module
loads as 1.31.1'''
command = '''
uv pip uninstall --python PYTHON onnxruntime onnxruntime-directml &&
uv pip install --python PYTHON onnxruntime-directml==1.24.4'''

["two special owners, of which one loads"]
version = "1.24.1"
owners = ["onnxruntime-gpu 1.31.1", "onnxruntime-openvino 1.24.1"]
what = '''
onnxruntime-gpu 1.31.1 (2 files, 0 missing) and onnxruntime-openvino 1.24.1
(2 files, 0 missing) overwrite one another: 2 files belong to several; the module
loads as 1.24.1'''
command = '''
PYTHON -m pip uninstall -y onnxruntime-gpu onnxruntime-openvino &&
PYTHON -m pip install onnxruntime-openvino==1.24.1'''

["files that another wheel uninstalled"]
owners = ["onnxruntime 1.31.1"]
lost = "onnxruntime/**/*.py"
left = "onnxruntime/LICENSE"
what = "onnxruntime 1.31.1 (2 files, 2 missing) is half removed"
command = '''
PYTHON -m pip uninstall -y onnxruntime && PYTHON -m pip install onnxruntime==1.31.1'''

["no files"]
owners = ["onnxruntime-openvino 1.24.1"]
lost = "onnxruntime/**/*.py"
what = "onnxruntime-openvino 1.24.1 (2 files, 2 missing) is half removed"
command = '''
PYTHON -m pip uninstall -y onnxruntime-openvino &&
PYTHON -m pip install onnxruntime-openvino==1.24.1'''

["one file less"]
owners = ["onnxruntime 1.31.1 onnxruntime/capi/onnxruntime_pybind11_state.so"]
what = "onnxruntime 1.31.1 (3 files, 1 missing) is half removed"
command = '''
PYTHON -m pip uninstall -y onnxruntime && PYTHON -m pip install onnxruntime==1.31.1'''

["a crash"]
change = '{CRASH}'
owners = ["onnxruntime 1.31.1"]
what = "ONNX Runtime does not load: {CRASHED}"
command = '''
PYTHON -m pip uninstall -y onnxruntime && PYTHON -m pip install onnxruntime==1.31.1'''

["a crash, no owner"]
change = '{CRASH}'
what = "ONNX Runtime does not load: {CRASHED}"

["an error"]
change = 'raise ImportError("undefined\\nsymbol")'
owners = ["onnxruntime 1.31.1"]
what = "ONNX Runtime does not load: undefined symbol"
command = '''
PYTHON -m pip uninstall -y onnxruntime && PYTHON -m pip install onnxruntime==1.31.1'''

["a library of Windows less"]
change = 'raise ImportError("{DLL}")'
owners = ["onnxruntime 1.31.1"]
what = "ONNX Runtime does not load: {DLL}"
command = "winget install --id Microsoft.VCRedist.2015+.x64"

["too old"]
change = '''{OLD}'''
owners = ["onnxruntime-openvino 1.23.0"]
version = "1.23.0"
what = "{TOO_OLD}"
command = "PYTHON -m pip install --upgrade onnxruntime-openvino"

["too old, no owner"]
change = '''{OLD}'''
version = "1.23.0"
what = "{TOO_OLD}"
""",
    type=dict[str, Ill],
)


def line(text: str | None) -> str | None:
    """Return a text of several lines as one line."""
    return text and text.replace("\n", " ")


@pytest.mark.parametrize("ill", quick_alone(["a crash"], ILL))
def test_what_is_wrong_with_an_environment(tmp_path: Path, ill: str) -> None:
    row = ILL[ill]
    home = Home(tmp_path / "home", pip=row.pip)
    if row.module:
        home.module(row.change, row.version)
    for owner in row.owners:
        home.own(*owner.split())
    for path in home.site.glob(row.lost):
        path.unlink()
    if row.left:
        home.write(row.left, "")
    expected = (line(f"PYTHON: {row.what}"), line(row.command)) if row.what else None
    assert home.finding(row.provider) == expected


def test_one_distribution_is_healthy(home: Home) -> None:
    found = look_at(home.healthy().python)
    assert found == Environment(
        home.python,
        {"python": PYTHON, "numpy": np.__version__, "onnxruntime": "1.31.1"},
        True,
        str(home.site / "onnxruntime"),
        (Wheel("onnxruntime", "1.31.1", 2, 0),),
        0,
        (CPU,),
        True,
        None,
    )
    assert home.finding() is None


@pytest.mark.slow
def test_a_path_with_a_space_is_quoted_in_the_command(tmp_path: Path) -> None:
    what = f"PYTHON: {NONE}"
    command = '"PYTHON" -m pip install "onnxruntime>=1.24.4"'
    assert Home(tmp_path / "my home").finding() == (what, command)


@pytest.mark.slow
@pytest.mark.parametrize("safe", ["", "1"])
def test_the_current_folder_is_not_on_the_path(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: str
) -> None:
    Home(tmp_path / "other").healthy("raise ImportError('the wrong one')\n")
    monkeypatch.chdir(tmp_path / "other" / "site")
    monkeypatch.setenv("PYTHONSAFEPATH", safe)
    found = look_at(home.healthy().python)
    assert found.folder == str(home.site / "onnxruntime")
    assert home.finding() is None


@pytest.mark.slow
def test_one_wheel_owns_the_module_whatever_is_beside_it(
    home: Home, tmp_path: Path
) -> None:
    home.healthy()
    # pip leaves such a folder on Windows.
    home.own("onnxruntime", "1.20.0", folder="~nxruntime-1.20.0.dist-info")
    # Another owner is behind it on the path.
    behind = Home(tmp_path / "behind")
    behind.module()
    behind.own("onnxruntime-openvino", "1.24.1")
    script = Path(home.python).read_text("utf-8")
    script = script.replace(f'{home.site}"', f'{home.site}:{behind.site}"')
    # The environment prints at its start.
    script = script.replace("\n", "\necho hello\n", 1)
    Path(home.python).write_text(script, "utf-8")
    assert look_at(home.python).wheels == (Wheel("onnxruntime", "1.31.1", 2, 0),)


@pytest.mark.slow
def test_distributions_that_share_no_file_are_healthy(home: Home) -> None:
    home.healthy()
    folder = "onnxruntime_extra-1.dist-info"
    home.write(f"{folder}/METADATA", "Name: onnxruntime-extra\nVersion: 1")
    home.write(f"{folder}/RECORD", "onnxruntime/capi/extra.so,,")
    home.write("onnxruntime/capi/extra.so", "")
    names = [wheel.name for wheel in look_at(home.python).wheels]
    assert names == ["onnxruntime", "onnxruntime-extra"]
    assert home.finding() is None


def test_an_interpreter_that_is_not_there_does_not_start(tmp_path: Path) -> None:
    python = str(tmp_path / "python")
    what = f"{python} does not start: No such file or directory"
    assert [*look_at(python).findings()] == [Finding(what)]


def test_an_environment_without_numpy_needs_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", numpy=False).healthy()
    command = 'PYTHON -m pip install "numpy>=1.26"'
    assert home.finding() == ("PYTHON: numpy is not installed", command)
    cure = f"install it: {sys.executable} -m pip install numpy"
    fault = f"a lane needs numpy, which is not installed; {cure}"
    assert look_at(home.python).fault == fault


NAMES: tuple[str, ...] = ("Gather", "GatherElements", "GatherND")


def states(checkup: Checkup, number: int = 0) -> dict[str, dict[str, str]]:
    """The state of each model, by the provider and the model's nodes."""
    return {
        one.info.name: {nodes: result.state for nodes, result in one.results.items()}
        for one in checkup.environments[number].providers
    }


ALL: dict[str, str] = dict.fromkeys(NAMES, "PASS")


class Tried(msgspec.Struct, forbid_unknown_fields=True):
    """A change to the stand-in, and what the doctor finds then."""

    change: str = ""
    states: dict[str, dict[str, str]] = {}
    """Where it is healthy, that of the CPU's provider is left out."""
    has_cpu: bool = True
    what: str = ""
    command: str | None = None
    code: int = 0


TRIED = msgspec.toml.decode(
    """
[healthy]

["some nodes between others alone"]
change = '''
PROVIDERS = ["OpenVINOExecutionProvider", "CPUExecutionProvider"]
def place(provider, wrapped, operator):
    return provider if wrapped or operator == "Gather" else "CPUExecutionProvider"
'''
["some nodes between others alone".states.openvino]
Gather = "PASS"
GatherElements = "NOT-RUN"
"Mul GatherElements Mul" = "PASS"
GatherND = "NOT-RUN"
"Mul GatherND Mul" = "PASS"

["no gather"]
change = '''
PROVIDERS = ["AzureExecutionProvider", "CPUExecutionProvider"]
def place(*_): return "CPUExecutionProvider"
'''
["no gather".states.AzureExecutionProvider]
Gather = "NOT-RUN"
"Mul Gather Mul" = "NOT-RUN"
GatherElements = "NOT-RUN"
"Mul GatherElements Mul" = "NOT-RUN"
GatherND = "NOT-RUN"
"Mul GatherND Mul" = "NOT-RUN"

["no gather on the only provider"]
change = '''
PROVIDERS = ["AzureExecutionProvider"]
def place(*_): return "CPUExecutionProvider"
'''
has_cpu = false
code = 3
["no gather on the only provider".states.AzureExecutionProvider]
Gather = "NOT-RUN"
"Mul Gather Mul" = "NOT-RUN"
GatherElements = "NOT-RUN"
"Mul GatherElements Mul" = "NOT-RUN"
GatherND = "NOT-RUN"
"Mul GatherND Mul" = "NOT-RUN"

[directml]
change = '''
PROVIDERS = ["DmlExecutionProvider", "CPUExecutionProvider"]
def start(self):
    if self.provider != "CPUExecutionProvider": raise RuntimeError("no adapter")
InferenceSession.open = start
'''
states.directml = {}
what = "directml: DmlExecutionProvider cannot start: no adapter"
code = 1

[cuda]
change = '''
PROVIDERS = ["CUDAExecutionProvider", "CPUExecutionProvider"]
def start(self):
    if self.provider != "CPUExecutionProvider": raise RuntimeError("no adapter")
InferenceSession.open = start
'''
states.cuda = {}
what = "cuda: CUDAExecutionProvider cannot start: no adapter"
command = '''
PYTHON -m pip uninstall -y onnxruntime &&
PYTHON -m pip install "onnxruntime-gpu[cuda,cudnn]>=1.24.4"'''
code = 1

["wrong elements"]
change = "def value(_, array): return array + (array.shape == (3, 1))"
states.cpu = { Gather = "PASS", GatherElements = "PASS", GatherND = "DIFF" }
what = '''
cpu: GatherND: DIFF 3 of 3 elements differ, first OutputTensor[0,0]: expected 2.0
(00 00 00 40), got 3.0 (00 00 40 40)'''
code = 1

["a crash"]
change = '''
PROVIDERS = ["OtherExecutionProvider", "CPUExecutionProvider"]
def start(self):
    if self.provider != "CPUExecutionProvider": os.kill(os.getpid(), signal.SIGSEGV)
InferenceSession.open = start
'''
states.OtherExecutionProvider = {}
what = "OtherExecutionProvider: the worker died of SIGSEGV and printed nothing"
code = 1
""",
    type=dict[str, Tried],
)


def test_each_case_is_one_node() -> None:
    assert tuple(case.name for case in CASES) == NAMES
    for case in CASES:
        model = descriptor_model(case.descriptor, case.out_of_range)
        assert [node.op_type for node in model.graph.node] == [case.name]


@pytest.mark.parametrize("tried", quick_alone(["wrong elements"], TRIED))
def test_what_is_wrong_with_providers(home: Home, tried: str) -> None:
    row = TRIED[tried]
    expected = {**({"cpu": ALL} if row.has_cpu else {}), **row.states}
    checkup = examine(python=home.healthy(row.change).python)
    assert states(checkup) == expected
    told = [(f"PYTHON: {line(row.what)}", line(row.command))] if row.what else []
    assert (home.told(checkup.findings), checkup.exit_code) == (told, row.code)
    for one in checkup.environments[0].providers:
        assert one.runs == ("PASS" in expected[one.info.name].values())
        for nodes, result in one.results.items():
            if result.state == "PASS":
                assert result.nodes == tuple(nodes.split())
            if result.state == "NOT-RUN":
                first = nodes.split()[0]
                assert result.reason == (
                    f"{one.info.provider} must run every node, but {first}"
                    f" ({first}) runs on {CPU}"
                )


@pytest.mark.slow
def test_without_any_onnx_runtime_the_exit_code_is_3(home: Home) -> None:
    checkup = examine(python=home.python)
    assert states(checkup) == {"cpu": {}}
    assert (len(checkup.findings), checkup.exit_code) == (1, 3)


@pytest.mark.slow
def test_another_environment_that_runs_does_not_hide_the_fault_of_this_one(
    home: Home, tmp_path: Path
) -> None:
    other = Home(tmp_path / "other").healthy()
    checkup = examine({"cpu@other": other.python}, python=home.python)
    assert states(checkup, 1) == {"cpu@other": ALL}
    assert home.told(checkup.findings) == [(f"PYTHON: {NONE}", INSTALL)]
    assert checkup.exit_code == 1


NO_LIBRARY = """
def get_ep_devices(): return []
def register_execution_provider_library(name, path): raise RuntimeError(f"no {path}")
"""


LACKING = """
directml, onnxruntime
DmlExecutionProvider is not available (available: CPUExecutionProvider); install
onnxruntime-directml on Windows, or run scripts/directml/setup.sh on Linux

cuda, onnxruntime
CUDAExecutionProvider is not available (available: CPUExecutionProvider); install
onnxruntime-gpu; the wheel needs an environment of its own: python3 -m venv ../cuda &&
../cuda/bin/pip install "onnxruntime-gpu[cuda,cudnn]" numpy, then --lane
cuda=../cuda/bin/python
-> PYTHON -m pip uninstall -y onnxruntime &&
PYTHON -m pip install "onnxruntime-gpu[cuda,cudnn]>=1.24.4"

cuda
PYTHON has no onnxruntime; install onnxruntime-gpu[cuda,cudnn]>=1.24.4 there
-> PYTHON -m pip install "onnxruntime-gpu[cuda,cudnn]>=1.24.4"

opencv
lane opencv needs OpenCV, which is not installed (no module cv2); run PYTHON
-m pip install opencv-python-headless==5.0.0.93 numpy
-> PYTHON -m pip install opencv-python-headless==5.0.0.93
"""
"""A lane, whether ONNX Runtime is there, what is wrong, and what mends it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("elsewhere", "said"),
    rows_of(LACKING),
)
def test_what_a_lane_elsewhere_lacks(
    home: Home, tmp_path: Path, elsewhere: str, said: str
) -> None:
    here = Home(tmp_path / "here").healthy()
    lane, _, runtime = elsewhere.partition(", ")
    if runtime:
        home.healthy()
    checkup = examine({lane: home.python}, python=here.python)
    what, _, command = said.partition(" -> ")
    expected = f"PYTHON: {lane}: {what}", command or None
    assert home.told(checkup.findings) == [expected]
    assert checkup.exit_code == 1


@pytest.mark.slow
def test_a_wheel_does_not_replace_that_of_this_environment() -> None:
    checkup = examine({"openvino": sys.executable})
    found = [one for one in checkup.findings if ": openvino: " in one.what]
    assert [finding.command for finding in found] == [
        "python3 -m venv ../openvino && ../openvino/bin/pip install"
        " onnxruntime-openvino numpy && onnxgather doctor"
        " --lane openvino=../openvino/bin/python"
    ]


@pytest.mark.slow
def test_an_interpreter_that_does_not_start(home: Home) -> None:
    checkup = examine({"cpu@old": "/none/python"}, python=home.healthy().python)
    what = "/none/python does not start: No such file or directory"
    assert checkup.findings == (Finding(what),)
    assert checkup.exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lane", "provider"),
    [
        ("webgpu", "WebGpuExecutionProvider"),
        ("qnn", "QNNExecutionProvider"),
        ("ggml@1", "ggml"),
    ],
)
def test_a_plugin_library_that_does_not_load_is_a_finding(
    home: Home, lane: str, provider: str
) -> None:
    home.healthy(NO_LIBRARY)
    checkup = examine(plugins={lane: "/none/lib.so"}, python=home.python)
    what = (
        f"PYTHON: {lane}: the plugin library of {provider} does not load: no"
        " /none/lib.so"
    )
    assert home.told(checkup.findings) == [(what, None)]


@pytest.mark.slow
def test_a_plugin_without_a_device_is_a_finding(home: Home) -> None:
    home.healthy(
        "class hardware: type = 'CPU'; vendor = 'Intel'\n"
        "class cpu:\n"
        "  ep_name = 'CPUExecutionProvider'; ep_metadata = {}; device = hardware\n"
        "def get_ep_devices(): return [cpu]\n"
        "def register_execution_provider_library(*_): pass\n"
    )
    home.write("lib.so", "")
    library = str(home.site / "lib.so")
    checkup = examine(plugins={"webgpu": library}, python=home.python)
    what = (
        "PYTHON: webgpu: the plugin library of WebGpuExecutionProvider loads, but does"
        " not offer a device; ONNX Runtime lists CPUExecutionProvider on CPU Intel"
    )
    assert home.told(checkup.findings) == [(what, None)]


def test_the_devices_of_a_lane_are_told(home: Home) -> None:
    home.healthy("""
def device(ep, kind, vendor):
    about = Any_(type="OrtHardwareDeviceType." + kind, vendor=vendor)
    return Any_(ep_name=ep + "ExecutionProvider", ep_metadata={}, device=about)
def get_ep_devices():
    return [device("CPU", "CPU", "Intel"), device("Dml", "GPU", "AMD"), device("CPU", "NPU", "X")]
""")  # noqa: E501
    text = str(examine(python=home.python))
    assert "\n  cpu: starts on CPU Intel, NPU X\n" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cpu@plugin", "CPUExecutionProvider"),
        ("ggml", "ggml"),
    ],
)
def test_a_plugin_is_tried_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.setattr(doctor, "lanes_set_up", lambda: ["webgpu"])
    home.healthy(NO_LIBRARY)
    checkup = examine(plugins={name: "/none/lib.so"}, python=home.python)
    assert states(checkup) == {name: {}}
    what = (
        f"PYTHON: {name}: the plugin library of {told} does not load: no /none/lib.so"
    )
    assert home.told(checkup.findings) == [(what, None)]
    assert checkup.exit_code == 3


@pytest.mark.slow
def test_a_plugin_that_runs_here_leaves_out_the_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "try_kernels", Mock(side_effect=AssertionError))
    checkup = examine(plugins={"ggml": "/none/lib.so"})
    assert checkup.kernels == ""
    assert list(states(checkup)) == ["ggml"]


@pytest.mark.slow
def test_a_lane_in_this_environment_is_not_asked_twice(home: Home) -> None:
    checkup = examine({"cpu@own": home.python}, python=home.healthy().python)
    assert states(checkup) == {"cpu@own": ALL}


@pytest.mark.slow
def test_a_lane_on_a_shared_library_is_examined(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "host").mkdir()
    library = library_of(tmp_path / "host", monkeypatch, RUNTIME)
    lanes = {"cpu@library": library, "webgpu@library": library}
    checkup = examine(lanes, python=home.healthy().python)
    assert states(checkup, 1) == {"cpu@library": ALL, "webgpu@library": {}}
    found = checkup.environments[1]
    assert (found.python, found.versions["onnxruntime"]) == (library, "1.31.1")
    what = (
        f"{library}: webgpu@library: WebGpuExecutionProvider is not available"
        " (available: CPUExecutionProvider); install onnxruntime-webgpu, or run"
        " scripts/directml/setup.sh on Linux"
    )
    assert checkup.findings == (Finding(what),)


@pytest.mark.slow
def test_a_shared_library_that_does_not_load_is_a_finding(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/none/c++")
    checkup = examine({"cpu@library": "/none/lib.so"}, python=home.healthy().python)
    what = (
        "cpu@library: the host of a shared library must be compiled by /none/c++,"
        " or what CXX names: /none/c++: No such file or directory"
    )
    assert checkup.findings == (Finding(what),)
    assert "\n/none/lib.so: does not answer\n  cpu@library: does not start: " in str(
        checkup
    )
    assert checkup.exit_code == 1


@pytest.mark.slow
def test_a_host_that_was_made_is_examined(home: Home, cache: Path) -> None:
    made = cache / "onnxgather" / "directml" / "run-runtime"
    made.parent.mkdir(parents=True)
    other = Home(made.parent / "other").healthy(
        "PROVIDERS = ['DmlExecutionProvider', 'CPUExecutionProvider']\n"
    )
    made.write_text(f'#!/bin/sh\nexec "{other.python}" -u "{runtime.__file__}"\n')
    made.chmod(0o755)
    checkup = examine(python=home.healthy().python)
    assert states(checkup) == {"cpu": ALL}
    assert states(checkup, 1) == {"directml": ALL}
    assert checkup.environments[1].python == str(made)
    assert (checkup.findings, checkup.exit_code) == ((), 0)


NATIVE = (
    "PYTHON: openvino: OpenVINOExecutionProvider is not available; the environment"
    " has OpenVINO 2026.4.1 itself, which is no provider of ONNX Runtime, and whose"
    " lane is openvino-runtime: --lane openvino-runtime=PYTHON"
)


@pytest.mark.slow
def test_native_openvino_is_told_by_its_own_lane(home: Home, tmp_path: Path) -> None:
    here = Home(tmp_path / "here").healthy()
    home.write("openvino/__init__.py", "")
    home.write(
        "openvino-2026.4.1.dist-info/METADATA",
        "Metadata-Version: 2.1\nName: openvino\nVersion: 2026.4.1\n",
    )
    checkup = examine({"openvino": home.python}, python=here.python)
    command = "onnxgather doctor --lane openvino-runtime=PYTHON"
    assert home.told(checkup.findings) == [(NATIVE, command)]
    assert checkup.environments[1].runtimes == ("openvino-runtime",)


@pytest.mark.slow
def test_all_lanes_of_environments_with_labels_are_examined(
    home: Home, tmp_path: Path
) -> None:
    bare = Home(tmp_path / "bare")
    of_runtime = Home(tmp_path / "runtime")
    of_runtime.write("tract/__init__.py", "")
    evaluator = Home(tmp_path / "evaluator")
    evaluator.write("onnx/__init__.py", "")
    labels = {
        "same": Home(tmp_path / "same").healthy().python,
        "bare": bare.python,
        "runtime": of_runtime.python,
        "evaluator": evaluator.python,
    }
    checkup = examine(python=home.healthy().python, environments=labels)
    found = [
        (environment.python, [one.info.name for one in environment.providers])
        for environment in checkup.environments
    ]
    # An environment of another runtime needs no lane of the CPU.
    assert found == [
        (home.python, ["cpu"]),
        (labels["same"], ["cpu@same"]),
        (bare.python, ["cpu@bare"]),
        (of_runtime.python, ["tract"]),
        (evaluator.python, ["onnx-reference"]),
    ]
    assert states(checkup, 1) == {"cpu@same": ALL}


@pytest.mark.slow
def test_runtimes_behind_adapters_are_tried(home: Home, tmp_path: Path) -> None:
    right = "gather = lambda data, indices: data[indices.reshape(3)].reshape(3)"
    change = f"""
        {right}
        del ran
        import atexit
        atexit.register(lambda: os._exit(3))
        """
    adapter = planted(tmp_path, change)
    checkup = examine(python=home.healthy().python, adapters={"mine": adapter})
    lines = str(checkup).splitlines()
    start = "  mine: starts, version 1.2.3"
    if sys.platform == "linux":
        start = f"{start}; answers, but then ended with exit code 3 at exit"
    position = lines.index(start)
    assert lines[position + 1] == "    Gather: PASS"
    assert checkup.exit_code == 1  # GatherND has another shape
    assert len(checkup.findings) == 1


@pytest.mark.slow
def test_both_runs_of_a_runtime_count(home: Home, tmp_path: Path) -> None:
    change = """
        RUNS = []
        def gather(data, indices):
            RUNS.append(0)
            output = data[indices.reshape(3)].reshape(3)
            return output if len(RUNS) % 2 else output + np.float32(1)
        del ran
        """
    adapter = planted(tmp_path, change)
    checkup = examine(python=home.healthy().python, adapters={"mine": adapter})
    lines = str(checkup).splitlines()
    position = lines.index("  mine: starts, version 1.2.3")
    assert lines[position + 1].startswith("    Gather: DIFF 3 of 3 elements differ")


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(
        ProviderError,
        match=r"^provider must be one of .*, cpu, .*, got 'cqu'; a lane on a"
        r" runtime of your own needs --adapter cqu=FILE\.py$",
    ):
        examine({"cqu": "python"})


CHECKUP = """
{
  "onnxgather": "0.1.0",
  "machine": "Linux 6.1 x86_64",
  "environments": [
    {
      "python": "/env/python",
      "versions": {"python": "3.11.7", "numpy": "2.4.6", "onnxruntime": "1.31.1"},
      "folder": "/env/onnxruntime",
      "wheels": [
        {"name": "onnxruntime", "version": "1.31.1", "files": 317, "missing": 0},
        {"name": "onnxruntime-odd", "version": "1", "files": 9, "missing": 2}
      ],
      "shared": 314,
      "providers": [
        {
          "info": {
            "name": "openvino",
            "provider": "OpenVINOExecutionProvider",
            "devices": ["GPU Intel", "CPU X"]
          },
          "results": {
            "Gather": {
              "lane": "x", "state": "PASS", "kind": "same", "nodes": ["Gather"]
            },
            "GatherElements": {
              "lane": "x",
              "state": "NOT-RUN",
              "kind": "not-run",
              "severity": "declines",
              "reason": "it must run every node, but it sleeps"
            },
            "Mul GatherElements Mul": {
              "lane": "x", "state": "ERROR", "kind": "broken", "reason": "oh",
              "severity": "fails"
            },
            "GatherND": {
              "lane": "x",
              "state": "DIFF",
              "kind": "shape",
              "severity": "wrong-elements",
              "reason": "no",
              "nodes": ["GatherND"]
            }
          }
        },
        {
          "info": {
            "name": "cuda",
            "provider": "CUDAExecutionProvider",
            "not_run": "no adapter"
          }
        },
        {
          "info": {"name": "ZExecutionProvider", "provider": "ZExecutionProvider"},
          "results": {
            "Gather": {
              "lane": "x", "state": "NOT-RUN", "kind": "not-run", "reason": "b",
              "severity": "declines"
            }
          }
        }
      ]
    },
    {
      "python": "/own/python",
      "versions": {"python": "3.12.1"},
      "folder": "/own/onnxruntime"
    },
    {"python": "/no/python", "versions": {"python": "3.12.1"}},
    {"python": "/none/python", "fault": "it does not start"}
  ],
  "findings": [{"what": "bad", "command": "mend it"}, {"what": "worse"}],
  "exit_code": 1,
  "kernels": ""
}
"""
"""A checkup that has everything a text may hold."""

TEXT = """\
onnxgather 0.1.0 on Linux 6.1 x86_64

/env/python: python 3.11.7, numpy 2.4.6, onnxruntime 1.31.1
  onnxruntime 1.31.1 (317 files, 0 missing)
  onnxruntime-odd 1 (9 files, 2 missing)
  openvino: starts on GPU Intel, CPU X
    Gather: PASS
    GatherElements: NOT-RUN it must run every node, but it sleeps
    Mul GatherElements Mul: ERROR oh
    GatherND: DIFF no
  cuda: does not start: no adapter
  ZExecutionProvider: starts, but runs no gather

/own/python: python 3.12.1
  onnxruntime of no wheel, in /own/onnxruntime

/no/python: python 3.12.1

/none/python: does not answer

2 findings:
1. bad
   mend it
2. worse"""


class TestText:
    CHECKUP = msgspec.json.decode(CHECKUP, type=Checkup)

    def test_the_text_of_a_whole_checkup(self) -> None:
        assert str(self.CHECKUP) == TEXT

    @pytest.mark.parametrize(
        ("findings", "last"),
        [((), "nothing is wrong"), ((Finding("bad"),), "1 finding:\n1. bad")],
    )
    def test_the_last_line_sums_up_the_findings(
        self, findings: tuple[Finding, ...], last: str
    ) -> None:
        checkup = msgspec.structs.replace(self.CHECKUP, findings=findings)
        assert str(checkup).endswith(f"\n\n{last}")

    def test_the_json_of_a_checkup(self) -> None:
        assert json.loads(msgspec.json.encode(self.CHECKUP)) == json.loads(CHECKUP)


@pytest.mark.slow
def test_it_is_healthy_and_onnxruntime_stays_out() -> None:
    """The only run of the command on this environment."""
    code = (
        "import sys\n"
        "from onnxgather.cli import main\n"
        "try: main(['doctor', '--json'])\n"
        "finally: assert 'onnxruntime' not in sys.modules\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    checkup = msgspec.json.decode(said.stdout, type=Checkup)
    assert checkup.onnxgather == og.__version__
    assert states(checkup)["cpu"] == ALL
    found = checkup.environments[0]
    (owner,) = found.wheels
    assert (
        owner.version
        == distribution(owner.name).version
        == found.versions["onnxruntime"]
    )
    assert (owner.missing, found.shared) == (0, 0)
    assert owner.files > 100
    assert (checkup.findings, checkup.exit_code) == ((), 0)
    if kernels.operators_library() is not None:
        assert checkup.kernels == "run in Python and in ONNX Runtime"


def test_kernels_that_are_not_there_are_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_OPERATORS", tmp_path / "gone.so")
    monkeypatch.setitem(sys.modules, "onnxgather._native", None)
    monkeypatch.delenv("ONNXGATHER_NATIVE", raising=False)
    why = tmp_path / "why.txt"
    monkeypatch.setattr(kernels, "_WHY_NOT", why)
    lost = "they are not beside onnxgather's modules; install onnxgather once more"
    assert try_kernels() == (f"none, as {lost}", False)
    why.write_text("the C compiler failed: 3: error: no Python.h; mend that\n", "utf-8")
    failed = "the C compiler failed: 3: error: no Python.h; mend that"
    assert try_kernels() == (
        f"none, as they were not built with onnxgather, as {failed}",
        False,
    )
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    assert try_kernels() == ("none, as ONNXGATHER_NATIVE is 0", False)


@pytest.mark.slow
def test_kernels_that_are_broken_are_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels.operators_library() is None:
        pytest.skip("the native kernels are not built")
    broken = tmp_path / "broken.so"
    broken.write_text("no library", "utf-8")
    monkeypatch.setattr(kernels, "_OPERATORS", broken)
    monkeypatch.setattr(
        doctor, "Gather", Mock(return_value=Mock(return_value=np.zeros(9)))
    )
    checkup = examine()
    *of_lanes, finding = checkup.findings
    assert [of_lane.what.split(": ")[1] for of_lane in of_lanes] == ["onnxgather"]
    assert finding == Finding(f"native kernels: {checkup.kernels}")
    assert str(checkup).splitlines()[1] == finding.what
    assert finding.what.startswith(
        "native kernels: the Python module gathers other elements than the"
        " reference; the operators of ONNX Runtime: CPUExecutionProvider must run"
        " onnxgather's own operators, but their library does not load: "
    )
    monkeypatch.setitem(sys.modules, "onnxgather._native", None)
    said, wrong = try_kernels()
    assert said.startswith(
        "the Python module does not load; the operators of ONNX Runtime: "
    )
    assert wrong


@pytest.mark.slow
def test_directml_itself_is_examined_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    folder = fake_folder(tmp_path, done())
    missing = str(tmp_path / "none")
    here = Home(tmp_path / "here").healthy()
    lanes = {"directml-dll": folder, "directml-dll@none": missing}
    checkup = examine(lanes, python=here.python)
    _, environment, _ = checkup.environments
    assert environment.python == folder
    assert environment.is_host
    assert environment.versions["DirectML"] == "1.15.4.0"
    (tried,) = environment.providers
    assert (tried.info.name, tried.info.not_run) == ("directml-dll", None)
    assert [*tried.results] == ["Gather", "GatherElements", "GatherND"]
    told = f"DirectML.dll is not set up; run scripts/directml/setup.sh {missing}"
    findings = [finding.what for finding in checkup.findings]
    assert f"directml-dll@none: {told}" in findings
