"""A pytest plugin: programs and the corpus as tests, and two fixtures.

`pytest --onnxgather="models --lanes cpu,openvino"` adds a test for each case and lane
after the project's own tests. The words are those of `onnxgather check` that choose
cases and lanes. They may also stand in pytest's configuration, as the entry
`onnxgather = models --lanes cpu,openvino`. The option takes the place of the entry, and
the entry adds no test where a path is given to pytest.

PASS passes. DIFF and ERROR fail, and so does each test of a lane that does not start,
and the test of a file that cannot be used. KNOWN is an expected failure. No test is
FIXED, as that counts all cases of a lane. With `--runxfail` no difference is known.
NOT-RUN is skipped with the reason, but fails on lanes of `--require`. The fixture
`onnxgather_check` runs one case in a test of the project: if a lane does not run it and
another lane passes, the test passes, and the summary says why.

The fixture `onnxgather_in_range` needs no words: it fails a test in which a gather of
any model met an index out of range.

Heavy modules and click are imported when the words or the fixture are used.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from onnxgather.checking.cases import Case
    from onnxgather.checking.results import Result
    from onnxgather.checking.run import Team
    from onnxgather.cli.words import Asked
    from onnxgather.core.descriptors.arrays import Array
    from onnxgather.core.descriptors.operators import Descriptor
    from onnxgather.core.execution.gather_provider import GatherCounts
    from onnxgather.core.options import OutOfRange

MOST_GATHERS = 10
"""The most gathers that the failure of `onnxgather_in_range` names."""

PROPERTY = "onnxgather"
"""The name of the property of a test that passed, for what a lane did not run."""

_ASKED: pytest.StashKey[Asked] = pytest.StashKey()
"""What the words ask for."""

_ITEM: pytest.StashKey[pytest.Item] = pytest.StashKey()
"""The test that runs."""

_IN_RANGE: pytest.StashKey[bool] = pytest.StashKey()
"""Kept of each test with the fixture `onnxgather_in_range`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option, and the entry of the configuration."""
    words = "words of `onnxgather check` that choose cases and lanes"
    group = parser.getgroup("onnxgather", "gathers on execution providers")
    group.addoption(
        "--onnxgather",
        metavar="WORDS",
        help=(
            f'{words}, after "=": --onnxgather="models --lanes cpu,openvino"; each case'
            " on each lane is a test"
        ),
    )
    entry = f"{words}; its cases are tests if no path is given to pytest"
    parser.addini("onnxgather", entry, type="string", default="")


@pytest.hookimpl(trylast=True)  # a conftest.py may make the files
def pytest_configure(config: pytest.Config) -> None:
    """Read the words, so that a mistake in them ends pytest at once."""
    if config.getoption("onnxgather") or config.getini("onnxgather"):
        _asked(config)


def _asked(config: pytest.Config) -> Asked:
    """Return what the words ask for, which are read only once.

    Raises:
        UsageError: The words are not as they must be.
    """
    if _ASKED in config.stash:
        return config.stash[_ASKED]
    from onnxgather.cli.words import asked_for
    from onnxgather.core.errors import OnnxGatherError

    where = "--onnxgather"
    words = config.getoption("onnxgather")
    folder = config.invocation_params.dir
    adds_tests = True
    # Case: there is no option, so that the entry counts.
    if words is None:
        where = "the entry onnxgather"
        words = config.getini("onnxgather")
        folder = config.rootpath
        adds_tests = config.args_source is not config.ArgsSource.ARGS
    if not isinstance(words, str):  # pyproject.toml may have a list
        raise pytest.UsageError(f"{where}: the words must be one text, got {words}")
    try:
        asked = asked_for(words, folder, config.rootpath, adds_tests=adds_tests)
    except OnnxGatherError as error:
        raise pytest.UsageError(f"{where}: {error}") from None
    config.stash[_ASKED] = asked
    return asked


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the lanes."""
    if _ASKED in config.stash:
        config.stash[_ASKED].close()


@pytest.hookimpl(tryfirst=True)  # before -k and its like
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the tests that the words ask for."""
    if _ASKED not in config.stash:
        return
    asked = config.stash[_ASKED]
    # A file may turn out to be unusable while its cases are made.
    cases = asked.cases()
    of_files = [
        (file, partial(pytest.fail, sentence, pytrace=False))
        for file, sentence in asked.unusable.items()
    ]
    items += _tests(session, "onnxgather", of_files)
    for lane in asked.lanes:
        on_lane = [(case.name, partial(_check, config, case, [lane])) for case in cases]
        items += _tests(session, f"onnxgather/{lane.name}", on_lane)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Print what the files hold beside cases."""
    if _ASKED not in config.stash:
        return []
    return config.stash[_ASKED].notes


def _tests(
    session: pytest.Session, group: str, tests: Iterable[tuple[str, Callable[[], None]]]
) -> Iterator[pytest.Item]:
    """Return the tests of a group.

    Args:
        session: The session.
        group: The name of the group.
        tests: The name of each test, and what it does.
    """
    # pytest gives its nodes no types that a checker could follow.
    collector = cast("Any", _Group).from_parent(session, name=group, nodeid=group)
    collector.tests = tests
    return session.genitems(collector)


class _Group(pytest.Collector):
    """The tests of a lane, or of the files that cannot be used."""

    tests: Iterable[tuple[str, Callable[[], None]]]

    def collect(self) -> Iterator[_Test]:
        for name, run in self.tests:
            # pytest reads brackets as those of parameters, which end a name.
            file, colon, dispatch = name.partition(": ")
            inside = f"{file}[{dispatch}]" if colon else name
            test: _Test = cast("Any", _Test).from_parent(self, name=inside)
            test.run = run
            test.whole = f"{self.name}/{name}"
            test.extra_keyword_matches.add(test.whole)
            yield test


class _Test(pytest.Item):
    """A test of the words."""

    run: Callable[[], None]
    whole: str
    """The lane and the name of the case, for `-k` and for the title of a failure."""

    def runtest(self) -> None:
        self.run()

    def reportinfo(self) -> tuple[str, int, str]:
        from onnxgather.core.files import path_from

        group = self.nodeid.partition("::")[0]
        # A report has the path of a skipped test as it is here.
        path = path_from("", str(self.config.rootpath / group))
        return path, 0, self.whole


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Keep the test, as the fixture is one for all tests."""
    item.config.stash[_ITEM] = item


def _check(config: pytest.Config, case: Case, lanes: Iterable[Team]) -> None:
    """Run a case; end the test, unless a result is PASS and no result is worse."""
    from onnxgather.checking.run import ask

    asked = config.stash[_ASKED]
    no_known = config.getoption("runxfail", default=False)
    known_differences = () if no_known else asked.known
    failures: list[str] = []
    others: list[str] = []
    states: set[str] = set()
    for lane in lanes:
        result, *_ = ask(case, lane, lane.info, known_differences)
        states.add(result.state)
        if _is_failure(result, asked.options.required):
            failures.append(_text_of(case, result))
        elif result.state != "PASS":
            others.append(_text_of(case, result))
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)
    if "KNOWN" in states:
        pytest.xfail("\n".join(others))
    if "PASS" not in states:
        # The place of the test says more than the place of this line.
        raise pytest.skip.Exception("\n".join(others), _use_item_location=True)
    properties = config.stash[_ITEM].user_properties
    for text in others:
        # A test may check several cases.
        if (PROPERTY, text) not in properties:
            properties.append((PROPERTY, text))


def _is_failure(result: Result, required: Container[str]) -> bool:
    """Return whether a result fails a test.

    Args:
        result: The result.
        required: The lanes that must run every case.
    """
    from onnxgather.core.output.result_states import BAD

    if result.state in BAD:
        return True
    if result.state != "NOT-RUN":
        return False
    return result.kind == "not-started" or result.lane in required


def _text_of(case: Case, result: Result) -> str:
    """Return a result as pytest shows it."""
    from onnxgather.checking.report.sentences import evidence_lines

    lines = "\n".join(evidence_lines(case, result))
    return f"{result.lane}: {result.state}: {lines}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what lanes did not run in tests that passed on other lanes."""
    tests: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("passed", ()):
        for name, text in report.user_properties:
            if name == PROPERTY:
                tests.setdefault(text, []).append(report.nodeid)
    if not tests:
        return
    terminalreporter.section("onnxgather: not run, but passed on another lane")
    for text, names in tests.items():
        terminalreporter.line(text)
        more = f", and {len(names) - 1} more" if len(names) > 1 else ""
        terminalreporter.line(f"  {names[0]}{more}")


class Check:
    """The function that the fixture `onnxgather_check` gives a test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._asked = _asked(config)

    def __call__(
        self,
        case: Case | Descriptor,
        data: Array | None = None,
        indices: Array | None = None,
        out_of_range: OutOfRange = "clamp",
        lane: str | None = None,
    ) -> None:
        """Fail the test unless a lane gives the reference's bytes, and no other errs.

        The test is skipped if no lane ran the case.

        Args:
            case: A descriptor, or a case that has its own arrays and policy.
            data: InputTensor, as `onnxgather.core.descriptors.reference` takes it.
            indices: IndicesTensor, likewise.
            out_of_range: What an index out of range does.
            lane: NAME or NAME=PATH; None means each lane of `--onnxgather`, or of the
                entry `onnxgather`.

        Raises:
            OnnxGatherError: The case, an array or the lane is not as it must be.
        """
        from onnxgather.checking.cases import DescriptorCase, NodeCase

        if not isinstance(case, DescriptorCase | NodeCase):
            # A case checks its arrays itself, also for arrays that are missing.
            arrays = cast("tuple[Array, Array]", (data, indices))
            case = DescriptorCase("onnxgather_check", case, *arrays, out_of_range)
        if self._asked.options.wrap:
            case = case.wrapped_in()
        lanes = self._asked.lanes
        if lane is not None:
            lanes = [self._asked.lane(lane)]
        _check(self._config, case, lanes)


@pytest.fixture(scope="session")
def onnxgather_check(pytestconfig: pytest.Config) -> Check:
    """Return a function that fails a test unless lanes give the right bytes."""
    return Check(pytestconfig)


@pytest.fixture
def onnxgather_in_range(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Fail the test if a gather on onnxgather's provider meets an index out of range.

    Return a function that adds the provider to the options of a session. Other sessions
    on the provider count too, if they run in the test.
    """
    from onnxgather.core.errors import ProviderError
    from onnxgather.core.execution.gather_provider import add_provider, provider_report

    def add(
        session_options: Any, out_of_range: OutOfRange = "clamp", report: bool = False
    ) -> None:
        """Add the provider as `og.add_provider` does, but under the policy "clamp"."""
        add_provider(session_options, out_of_range, report)

    try:
        provider_report(reset=True)
    except ProviderError as error:
        pytest.fail(str(error), pytrace=False)
    request.node.stash[_IN_RANGE] = True
    return add


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test here, as what its fixture raises at its end would be an error."""
    if _IN_RANGE not in item.stash:
        return (yield)
    try:
        result = yield
    except BaseException:
        # The test fails for another reason, which an index out of range may explain.
        sentences = _sentences_out_of_range(_gathers_that_ran())
        if sentences:
            item.add_report_section("call", "onnxgather", sentences)
        raise
    gathers = _gathers_that_ran()
    if not gathers:
        pytest.fail(
            "onnxgather_in_range must see a gather run, but none ran on onnxgather's"
            " provider; onnxgather_in_range(options) adds it to SessionOptions, and"
            " providers= of InferenceSession takes it away",
            pytrace=False,
        )
    sentences = _sentences_out_of_range(gathers)
    if sentences:
        pytest.fail(sentences, pytrace=False)
    return result


def _gathers_that_ran() -> list[GatherCounts]:
    """Return the gathers that ran on onnxgather's provider since the last reset."""
    from onnxgather.core.execution.gather_provider import provider_report

    return [counts for counts in provider_report() if counts.runs]


def _sentences_out_of_range(gathers: Iterable[GatherCounts]) -> str:
    """Return a line for each gather that met an index out of range, up to a number."""
    from onnxgather.core.checks import number_of

    sentences = [str(counts) for counts in gathers if counts.outside]
    lines = sentences[:MOST_GATHERS]
    others = len(sentences) - len(lines)
    if others:
        lines.append(f"and {number_of(others, 'gather')} more")
    return "\n".join(lines)
