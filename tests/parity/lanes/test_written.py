"""Descriptors written as C++, compiled by MinGW, and created and run by
DirectML.dll."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from corpus_cases import corpus
from wine_programs import live, wine_program

import onnxgather as og
from onnxgather.descriptors.reference import reference
from onnxgather.execution.child import NoAnswerError
from onnxgather.parity.cases import DescriptorCase
from onnxgather.parity.lanes.directml import Host, request_for

HERE = Path(__file__).parent


def written_host(folder: Path, descriptors: list[og.Descriptor]) -> list[str]:
    """Return the command of a host that has these descriptors as C++."""
    return wine_program(folder, [HERE / "written_host.cpp"], descriptors)


@live
def test_directml_takes_the_corpus_as_cpp(tmp_path: Path) -> None:
    cases = {
        case.descriptor: case for case in corpus() if isinstance(case, DescriptorCase)
    }
    run = list(cases)[:: len(cases) // 30]
    with closing(Host(written_host(tmp_path, [*cases, *run]), timeout=300)) as host:
        for descriptor in cases:
            assert host.ask(request_for(descriptor)).stage == "done"
        for descriptor in run:
            case = cases[descriptor]
            verdict = host.ask(
                request_for(descriptor),
                (case.data.tobytes(), case.indices.tobytes(), b""),
            )
            expected = reference(
                descriptor, case.data, case.indices, "directml"
            ).tobytes()
            assert verdict.output is not None
            assert verdict.output[: len(expected)] == expected


@live
def test_a_descriptor_that_differs_ends_the_host(tmp_path: Path) -> None:
    cases = (case for case in corpus() if isinstance(case, DescriptorCase))
    first, second = islice(dict.fromkeys(case.descriptor for case in cases), 2)
    with closing(Host(written_host(tmp_path, [first, first]), timeout=300)) as host:
        assert host.ask(request_for(first)).stage == "done"
        with pytest.raises(NoAnswerError, match="descriptor 1 differs"):
            host.ask(request_for(second))
