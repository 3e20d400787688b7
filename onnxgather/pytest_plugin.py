"""A pytest plugin: the corpus as tests of a project, and a fixture that compares a provider.

`pytest --onnxgather-lanes cpu,openvino --onnxgather-corpus` adds a test for each case and lane
after the project's own tests: PASS passes; DIFF, ERROR and FIXED fail, and so does each test of a
lane that does not start; NOT-RUN and KNOWN are skipped with the reason. On lanes of
`--onnxgather-require` NOT-RUN fails. The fixture `onnxgather_check` runs one case in a test of the
project. Heavy modules are imported when an option or the fixture is used.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

if TYPE_CHECKING:
    from onnxgather.descriptors.arrays import Array
    from onnxgather.descriptors.operators import Descriptor
    from onnxgather.options import OutOfRange
    from onnxgather.parity.cases import Case
    from onnxgather.parity.lanes.lane import Lane, LaneInfo
    from onnxgather.parity.results import Result

T = TypeVar("T")

DEFAULT_LANES, DEFAULT_POLICY = "cpu", "clamp"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("onnxgather", "gathers on execution providers")
    group.addoption(
        "--onnxgather-lanes",
        metavar="LANES",
        help="providers, such as cpu,openvino; NAME=PATH is one in another environment "
        f"(default: {DEFAULT_LANES})",
    )
    group.addoption(
        "--onnxgather-require",
        metavar="LANES",
        default="",
        help="lanes, with commas, where a case that did not run, unexplained, is a failure",
    )
    group.addoption(
        "--onnxgather-corpus",
        action="store_true",
        help="run the built-in corpus, a test per case and lane",
    )
    group.addoption(
        "--onnxgather-random",
        type=_count,
        default=0,
        metavar="N",
        help="run N random cases, a test per case and lane",
    )
    group.addoption(
        "--onnxgather-seed",
        type=_count,
        default=0,
        metavar="S",
        help="which random cases (default: 0)",
    )
    group.addoption(
        "--onnxgather-out-of-range",
        default=DEFAULT_POLICY,
        metavar="RULE",
        help="what an index out of range does in random cases: clamp, error, zero or directml "
        f"(default: {DEFAULT_POLICY})",
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, got {text!r}")
    return int(text)


class _Running:
    """A lane that starts with its first case."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane

    @cached_property
    def info(self) -> LaneInfo:
        return self.lane.start()

    def ask(self, case: Case) -> Result:
        from onnxgather.parity.checking import ask

        return ask(case, self.lane, self.info)[0]


_OPENED = pytest.StashKey[dict[str, _Running]]()
"""The lanes of a pytest run, each opened once, by NAME or NAME=PATH."""


def _open(config: pytest.Config, specs: str | None = None) -> list[_Running]:
    """The lanes of comma-separated NAME or NAME=PATH items; None means those of the options.

    Raises:
        OnnxGatherError: An item names no provider, a lane is named twice, or there is none.
    """
    from onnxgather.parity.lanes import REFERENCE, open_lanes, parse_lane

    if specs is None:
        given = config.getoption("--onnxgather-lanes")
        specs = DEFAULT_LANES if given is None else str(given)
    items = [item.strip() for item in specs.split(",")]
    items = [item for item in items if item not in ("", REFERENCE)]
    parsed = [parse_lane(item) for item in items]
    pythons = {name: python for name, python in parsed if python is not None}
    lanes = open_lanes([name for name, _ in parsed], pythons)
    opened = config.stash[_OPENED]
    return [
        opened.setdefault(item, _Running(lane)) for item, lane in zip(items, lanes, strict=True)
    ]


def pytest_configure(config: pytest.Config) -> None:
    """Check the options that are given."""
    config.stash[_OPENED] = {}
    required = _required(config)
    if required or config.getoption("--onnxgather-lanes") is not None:
        from onnxgather.checks import check_choice

        names = [running.lane.name for running in _usable("lanes", lambda: _open(config))]
        for name in required:
            _usable("require", partial(check_choice, "a lane", name, names))
    policy = config.getoption("--onnxgather-out-of-range")
    if policy != DEFAULT_POLICY:
        from onnxgather.descriptors.arrays import check_policy

        _usable("out-of-range", lambda: check_policy(policy))


def _required(config: pytest.Config) -> set[str]:
    names = str(config.getoption("--onnxgather-require")).split(",")
    return {name.strip() for name in names} - {""}


def _usable(option: str, check: Callable[[], T]) -> T:
    from onnxgather.errors import OnnxGatherError

    try:
        return check()
    except OnnxGatherError as error:
        raise pytest.UsageError(f"--onnxgather-{option}: {error}") from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the lanes."""
    if _OPENED in config.stash:  # not where another plugin failed before
        for running in config.stash[_OPENED].values():
            running.lane.close()


@pytest.hookimpl(tryfirst=True)  # before -k and its like
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the cases that the options ask for."""
    cases = list(_cases(config))
    for running in _open(config) if cases else []:
        name = f"onnxgather/{running.lane.name}"
        tests: _LaneTests = cast("Any", _LaneTests).from_parent(session, name=name, nodeid=name)
        tests.running, tests.cases = running, cases
        items += session.genitems(tests)


def _cases(config: pytest.Config) -> Iterator[Case]:
    if config.getoption("--onnxgather-corpus"):
        from onnxgather.parity.corpus import corpus

        yield from corpus()
    if count := config.getoption("--onnxgather-random"):
        from onnxgather.parity.corpus import random_cases

        seed: Any = config.getoption("--onnxgather-seed")
        policy: Any = config.getoption("--onnxgather-out-of-range")
        yield from random_cases(count, seed, policy)


class _LaneTests(pytest.Collector):
    """All cases on one lane."""

    running: _Running
    cases: list[Case]

    def collect(self) -> Iterator[_CaseTest]:
        for case in self.cases:
            test: _CaseTest = cast("Any", _CaseTest).from_parent(self, name=case.name)
            test.running, test.case = self.running, case
            test.extra_keyword_matches.add(test.whole)
            yield test


class _CaseTest(pytest.Item):
    """One case on one lane."""

    running: _Running
    case: Case

    @property
    def whole(self) -> str:
        """The full name of the test, for `-k` and for the title of a failure."""
        return f"onnxgather/{self.running.lane.name}/{self.name}"

    def runtest(self) -> None:
        _judge(self.config, [self.running.ask(self.case)])

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.config.rootpath / self.nodeid.partition("::")[0], 0, self.whole


def _judge(config: pytest.Config, results: list[Result]) -> None:
    """Fail the test if a result must not be; else skip it if a result is not PASS."""
    from onnxgather.parity.states import BAD

    required = _required(config)
    found = [
        _message(result)
        for result in results
        if result.state in BAD
        or result.kind == "not-started"
        or (result.state == "NOT-RUN" and result.lane in required)
    ]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
    if missing := [_message(result) for result in results if result.state != "PASS"]:
        pytest.skip("\n".join(missing))


def _message(result: Result) -> str:
    """A message about a result that is not PASS."""
    from onnxgather.report.sentences import evidence_lines

    return f"{result.lane}: {result.state}: " + "\n".join(evidence_lines(result))


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
            data: InputTensor, as `onnxgather.descriptors.reference` takes it.
            indices: IndicesTensor, likewise.
            out_of_range: What an index out of range does.
            lane: NAME or NAME=PATH; None means each of `--onnxgather-lanes`.

        Raises:
            OnnxGatherError: The case, an array or the lane is not as it must be.
        """
        from onnxgather.parity.cases import DescriptorCase, NodeCase

        if not isinstance(case, DescriptorCase | NodeCase):
            given = cast("tuple[Array, Array]", (data, indices))  # it checks them
            case = DescriptorCase("onnxgather_check", case, *given, out_of_range)
        _judge(self._config, [running.ask(case) for running in _open(self._config, lane)])


@pytest.fixture(scope="session")
def onnxgather_check(pytestconfig: pytest.Config) -> Check:
    """A function that fails the test unless a provider gives the reference's bytes."""
    return Check(pytestconfig)
