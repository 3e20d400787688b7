"""A pytest plugin: the corpus as tests of a project, and a fixture that compares a provider.

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

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from onnxgather.core.errors import OnnxGatherError

if TYPE_CHECKING:
    from onnxgather.checking.cases import Case
    from onnxgather.checking.check_options import Asked
    from onnxgather.checking.run import Team
    from onnxgather.core.descriptors.arrays import Array
    from onnxgather.core.descriptors.operators import Descriptor
    from onnxgather.core.options import OutOfRange

_ASKED: pytest.StashKey[Asked] = pytest.StashKey()
"""What the options ask for."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a check, each for the command line and for pytest's configuration."""
    from onnxgather.checking.check_options import CHECK_OPTIONS

    group = parser.getgroup("onnxgather", "gathers on execution providers")
    for option in CHECK_OPTIONS.values():
        metavar = option.metavar
        told = (option.help_in_pytest or option.help).replace("--", "--onnxgather-")
        more: Any = {"metavar": metavar} if metavar else {"const": True}
        action = "append" if option.repeats else "store" if metavar else "store_const"
        group.addoption(f"--onnxgather-{option.name}", action=action, help=told, **more)
        several = "paths" if metavar == "FILE" else "linelist"
        kind: Any = several if option.repeats else "string" if metavar else "bool"
        parser.addini(f"onnxgather_{option.field}", told, kind)


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, and check those that are given."""
    from onnxgather.checking.check_options import CHECK_OPTIONS, asked_for

    given: dict[str, Any] = {}
    for name, option in CHECK_OPTIONS.items():
        typed = config.getoption(f"--onnxgather-{name}")
        in_file = config.getini(f"onnxgather_{option.field}") or None
        given[name] = in_file if typed is None else typed
    try:
        config.stash[_ASKED] = asked_for(given, "--onnxgather-")
    except OnnxGatherError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the lanes."""
    if _ASKED in config.stash:  # not where another plugin failed before
        config.stash[_ASKED].close()


@pytest.hookimpl(tryfirst=True)  # before -k and its like
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the cases that the options ask for."""
    asked = config.stash[_ASKED]
    cases = [*asked.cases()]
    for lane in asked.open() if cases else []:
        name = f"onnxgather/{lane.name}"
        tests = cast("Any", _LaneTests).from_parent(session, name=name, nodeid=name)
        tests.lane, tests.cases = lane, cases
        items += session.genitems(tests)


class _LaneTests(pytest.Collector):
    """All cases on one lane."""

    lane: Team
    cases: list[Case]

    def collect(self) -> Iterator[_CaseTest]:
        for case in self.cases:
            test: _CaseTest = cast("Any", _CaseTest).from_parent(self, name=case.name)
            test.lane, test.case, test.whole = (
                self.lane,
                case,
                f"{self.name}/{case.name}",
            )
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
        return self.config.rootpath / self.nodeid.partition("::")[0], 0, self.whole


def _check(config: pytest.Config, case: Case, lanes: Iterable[Team]) -> None:
    """Run a case; end the test, unless each result is PASS."""
    from onnxgather.checking.report.sentences import evidence_lines
    from onnxgather.checking.run import ask
    from onnxgather.core.output.result_states import BAD

    asked = config.stash[_ASKED]
    case = case.wrapped_in() if asked.wrap else case
    known = () if config.getoption("runxfail", default=False) else asked.known
    results = [ask(case, lane, lane.info, known)[0] for lane in lanes]
    bad, others = list[str](), list[str]()
    for result in results:
        if result.state == "PASS":
            continue
        text = f"{result.lane}: {result.state}: " + "\n".join(evidence_lines(result))
        if result.state == "FIXED":
            text = f"[XPASS(strict)] the entry of a known difference can go: {text}"
        must_run = result.kind == "not-started" or result.lane in asked.require
        is_bad = result.state in BAD or (result.state == "NOT-RUN" and must_run)
        (bad if is_bad else others).append(text)
    if bad:
        pytest.fail("\n".join(bad), pytrace=False)
    if others:
        is_known = any(result.state == "KNOWN" for result in results)
        (pytest.xfail if is_known else pytest.skip)("\n".join(others))


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
        """Fail the test unless a provider gives the reference's bytes; skip if it did not run.

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
            given = cast("tuple[Array, Array]", (data, indices))  # it checks them
            case = DescriptorCase("onnxgather_check", case, *given, out_of_range)
        _check(self._config, case, self._config.stash[_ASKED].open(lane))


@pytest.fixture(scope="session")
def onnxgather_check(pytestconfig: pytest.Config) -> Check:
    """A function that fails the test unless a provider gives the reference's bytes."""
    return Check(pytestconfig)
