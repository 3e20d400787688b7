"""Four answers: DirectML.dll, the model on DirectML's provider and on the CPU, the
reference.

`onnxgather check --random 2000 --out-of-range directml --target portable
--lanes cpu,directml,directml-dll` asks them about more descriptors.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from command_line import outcome
from corpus_cases import corpus
from edge_indices import FEW, ask, cases
from folders import MODELS

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import random_cases
from onnxgather.checking.known_differences import CasePattern, known_differences
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.directml import find_host
from onnxgather.checking.repro.flow import make_repro
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.output.result_states import State

live = pytest.mark.skipif(
    not find_runtime(PROVIDERS["directml"]) or not find_host(),
    reason="scripts/directml/setup.sh has not run",
)
KNOWN = [
    pattern
    for entry in known_differences()
    # What fails sometimes alone passes on the first case that the pattern fits.
    if entry.provider == PROVIDERS["directml"].name and not entry.sometimes
    for pattern in entry.cases
    # A valid case beside one that must be refused is no case of the corpus.
    if not (pattern.name or "").startswith("beside/")
]
LANES = ("cpu", "directml", "directml-dll")


def states(
    names: tuple[str, ...], asked: list[DescriptorCase]
) -> list[dict[State, int]]:
    """How often each state came out, per lane; a test that fails prints each reason."""
    report = ask(names, asked)
    for case in report.cases:
        for result in case.results:
            if result.state != "PASS":
                print(f"{case.name} on {result.lane}: {result.state}, {result.reason}")
    return [dict(report.counts(number)) for number in range(len(names))]


def test_every_index_value_gives_the_reference_s_bytes_on_the_cpu() -> None:
    asked = list(cases(FEW))
    assert sum(case.indices.size for case in asked) > 80_000
    assert states(("cpu",), asked) == [{"PASS": len(asked)}]


@pytest.mark.slow
@live
def test_every_index_value_gives_the_reference_s_bytes_on_directml() -> None:
    asked = list(islice(cases(FEW), 0, None, 7))
    assert {case.out_of_range for case in asked} == {
        "clamp",
        "error",
        "zero",
        "directml",
    }
    assert states(("directml",), asked) == [{"PASS": len(asked)}]


@pytest.mark.slow
@live
def test_descriptor_and_model_give_the_same_everywhere() -> None:
    asked = list(random_cases(8, 1, "directml"))
    assert {case.in_range for case in asked} == {True, False}
    assert states(LANES, asked) == [{"PASS": len(asked)}] * 3


@pytest.mark.slow
@live
def test_all_programs_of_the_checkout_pass_on_directml() -> None:
    count = len(list(MODELS.glob("*.json")))
    assert count == 16
    code, printed, _ = outcome("check", str(MODELS), "--lanes", ",".join(LANES))
    assert code == 0
    assert printed.count(f": {count} cases, {count} PASS\n") == 3


@pytest.mark.slow
@live
@pytest.mark.parametrize("pattern", KNOWN, ids=lambda pattern: str(pattern.name))
def test_each_known_difference_of_the_provider_has_a_repro(
    pattern: CasePattern, tmp_path: Path
) -> None:
    case = next(case for case in corpus() if pattern.fits(case))
    (lane,) = open_lanes(["directml"])
    found = make_repro(case, lane, str(tmp_path / "repro"))
    lane.close()
    assert found.shown, found.text
    # An index out of range must still reach another element, and indices that are
    # smaller than the data need two elements.
    assert found.case.data.size <= (4 if isinstance(case, DescriptorCase) else 2)
    issue = (tmp_path / "repro" / "ISSUE.md").read_text("utf-8")
    assert issue.startswith("# DmlExecutionProvider r")
    assert "`repro.py` was not tried" in issue
