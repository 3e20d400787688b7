"""A pytest plugin: the corpus as tests, and a fixture that compares a provider.

`pytest --onnxgather-lanes cpu,openvino --onnxgather-corpus` adds a test for each case
and lane after the project's own tests. The options are those of `onnxgather check`, and
may also stand in pytest's configuration, such as `onnxgather_lanes = cpu,openvino`.

PASS passes. DIFF and ERROR fail, and so does each test of a lane that does not start.
KNOWN is an expected failure. FIXED fails as a strict XPASS, as the entry of its known
difference can go. With `--runxfail` no difference is known. NOT-RUN is skipped with the
reason, but fails on lanes of `--onnxgather-require`. The fixture `onnxgather_check`
runs one case in a test of the project. Heavy modules are imported when an option or the
fixture is used.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from onnxgather.core.errors import OnnxGatherError

if TYPE_CHECKING:
    from onnxgather.checking.cases import Case
    from onnxgather.checking.check_options import Asked
    from onnxgather.checking.results import Result
    from onnxgather.checking.run import Team
    from onnxgather.core.descriptors.arrays import Array
    from onnxgather.core.descriptors.operators import Descriptor
    from onnxgather.core.options import OutOfRange

_OPTIONS: pytest.StashKey[Asked] = pytest.StashKey()
"""What the options ask for."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a check, for the command line and the configuration."""
    from onnxgather.checking.check_options import CHECK_OPTIONS

    group = parser.getgroup("onnxgather", "gathers on execution providers")
    for option in CHECK_OPTIONS.values():
        text = option.help_in_pytest or option.help
        text = text.replace("--", "--onnxgather-")
        # Case: a flag, which has no value.
        action = "store_const"
        kind = "bool"
        value: dict[str, Any] = {"const": True}
        if option.metavar:
            action = "store"
            kind = "string"
            value = {"metavar": option.metavar}
        if option.repeats:
            action = "append"
            kind = "paths" if option.metavar == "FILE" else "linelist"
        name = f"--onnxgather-{option.name}"
        group.addoption(name, action=action, help=text, **value)
        parser.addini(f"onnxgather_{option.field}", text, cast("Any", kind))


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, and check those that are given."""
    from onnxgather.checking.check_options import CHECK_OPTIONS, asked_for

    given: dict[str, Any] = {}
    for name, option in CHECK_OPTIONS.items():
        value = config.getoption(f"--onnxgather-{name}")
        in_file = config.getini(f"onnxgather_{option.field}")
        # The command line counts more than the configuration.
        if value is None and in_file:
            value = in_file
        given[name] = value
    try:
        config.stash[_OPTIONS] = asked_for(given, "--onnxgather-")
    except OnnxGatherError as error:
        raise pytest.UsageError(_with_own_options(str(error))) from None


def _with_own_options(text: str) -> str:
    """Return a sentence that names this plugin's options in place of the command's.

    The command's `--lane NAME=PATH` is an item of this plugin's option for lanes. A
    whole command in the sentence, such as `onnxgather check --lanes cpu`, stays.
    """
    from onnxgather.checking.check_options import CHECK_OPTIONS

    names = "|".join(CHECK_OPTIONS)
    command = r"onnxgather [a-z]+ --[^;]*"
    option = rf"(?<![\w-])--(?P<name>lane|{names})(?![\w-])"

    def in_pytest(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        if name == "lane":
            name = "lanes"
        return f"--onnxgather-{name}"

    return re.sub(f"{command}|{option}", in_pytest, text)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the lanes."""
    if _OPTIONS in config.stash:  # not where another plugin failed before
        config.stash[_OPTIONS].close()


@pytest.hookimpl(tryfirst=True)  # before -k and its like
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the cases that the options ask for."""
    options = config.stash[_OPTIONS]
    cases = list(options.cases())
    if not cases:
        return
    for lane in options.open():
        name = f"onnxgather/{lane.name}"
        # pytest gives its nodes no types that a checker could follow.
        tests = cast("Any", _LaneTests).from_parent(session, name=name, nodeid=name)
        tests.lane = lane
        tests.cases = cases
        items += session.genitems(tests)


class _LaneTests(pytest.Collector):
    """All cases on one lane."""

    lane: Team
    cases: list[Case]

    def collect(self) -> Iterator[_CaseTest]:
        for case in self.cases:
            test: _CaseTest = cast("Any", _CaseTest).from_parent(self, name=case.name)
            test.lane = self.lane
            test.case = case
            test.whole = f"{self.name}/{case.name}"
            test.extra_keyword_matches.add(test.whole)
            yield test


class _CaseTest(pytest.Item):
    """One case on one lane."""

    lane: Team
    case: Case
    whole: str
    """The full name of the test, for `-k` and for the title of a failure."""

    def runtest(self) -> None:
        _check(self.config, self.case, [self.lane])

    def reportinfo(self) -> tuple[Path, int, str]:
        folder = self.nodeid.partition("::")[0]
        return self.config.rootpath / folder, 0, self.whole


def _check(config: pytest.Config, case: Case, lanes: Iterable[Team]) -> None:
    """Run a case; end the test, unless each result is PASS."""
    from onnxgather.checking.run import ask

    options = config.stash[_OPTIONS]
    if options.wrap:
        case = case.wrapped_in()
    no_known = config.getoption("runxfail", default=False)
    known_differences = () if no_known else options.known
    failures: list[str] = []
    others: list[str] = []
    is_known = False
    for lane in lanes:
        result, *_ = ask(case, lane, lane.info, known_differences)
        if result.state == "PASS":
            continue
        if result.state == "KNOWN":
            is_known = True
        if _is_failure(result, options.require):
            failures.append(_text_of(result))
        else:
            others.append(_text_of(result))
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)
    if others and is_known:
        pytest.xfail("\n".join(others))
    if others:
        pytest.skip("\n".join(others))


def _is_failure(result: Result, required: Container[str]) -> bool:
    """Return whether a result fails a test.

    Args:
        result: A result that is not PASS.
        required: The lanes that must run every case.
    """
    from onnxgather.core.output.result_states import BAD

    if result.state in BAD:
        return True
    if result.state != "NOT-RUN":
        return False
    return result.kind == "not-started" or result.lane in required


def _text_of(result: Result) -> str:
    """Return a result as pytest shows it."""
    from onnxgather.checking.report.sentences import evidence_lines

    lines = "\n".join(evidence_lines(result))
    lines = _with_own_options(lines)
    text = f"{result.lane}: {result.state}: {lines}"
    if result.state == "FIXED":
        text = f"[XPASS(strict)] the entry of a known difference can go: {text}"
    return text


class Check:
    """The function that the fixture `onnxgather_check` gives a test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(
        self,
        case: Case | Descriptor,
        data: Array | None = None,
        indices: Array | None = None,
        out_of_range: OutOfRange = "clamp",
        lane: str | None = None,
    ) -> None:
        """Fail the test unless a provider gives the reference's bytes.

        The test is skipped if the provider did not run the case.

        Args:
            case: A descriptor, or a case that has its own arrays and policy.
            data: InputTensor, as `onnxgather.core.descriptors.reference` takes it.
            indices: IndicesTensor, likewise.
            out_of_range: What an index out of range does.
            lane: NAME or NAME=PATH; None means each of `--onnxgather-lanes`.

        Raises:
            OnnxGatherError: The case, an array or the lane is not as it must be.
        """
        from onnxgather.checking.cases import DescriptorCase, NodeCase

        if not isinstance(case, DescriptorCase | NodeCase):
            # A case checks its arrays itself, also for arrays that are missing.
            arrays = cast("tuple[Array, Array]", (data, indices))
            case = DescriptorCase("onnxgather_check", case, *arrays, out_of_range)
        try:
            lanes = self._config.stash[_OPTIONS].open(lane)
        except OnnxGatherError as error:
            error.args = (_with_own_options(str(error)),)
            raise
        _check(self._config, case, lanes)


@pytest.fixture(scope="session")
def onnxgather_check(pytestconfig: pytest.Config) -> Check:
    """Return a function that fails a test unless a provider gives the right bytes."""
    return Check(pytestconfig)
