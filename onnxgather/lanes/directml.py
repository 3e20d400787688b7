"""The lane on DirectML.dll itself: descriptors, not models."""

from __future__ import annotations

import numpy as np

from onnxgather.arrays import Array, elements
from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.errors import ProviderError
from onnxgather.lanes.directml_host import REFUSALS, Host, find_host, setup_command
from onnxgather.lanes.lane import Answer, AnswerKind, Breakdown, LaneInfo

DIRECTML_DLL = "directml-dll"
"""The lane's name; the provider `directml` is ONNX Runtime's."""

LIBRARY = "DirectML.dll"


class DirectMLLane:
    """DirectML.dll, asked through the program of scripts/directml.

    It runs descriptors, and has one rule for indices out of range. So a case is NOT-RUN here
    that is a forbidden node, stands between other operators, or has such indices under another
    policy than "directml".

    Args:
        name: As the user named it.
        folder: Where the program is; None is where scripts/directml/setup.sh puts it.
        timeout: Seconds that one case may take.
    """

    def __init__(self, name: str, folder: str | None = None, timeout: float = 60) -> None:
        self.name = name
        self._folder, self._timeout = folder, timeout
        self._host: Host | None = None

    def start(self) -> LaneInfo:
        """Start the program."""
        command = find_host(self._folder)
        if command is None:
            why = f"{LIBRARY} is not set up; run {setup_command(self._folder)}"
            return LaneInfo(self.name, LIBRARY, not_run=why)
        try:
            self._host = Host(command, self._timeout)
        except ProviderError as error:
            return LaneInfo(self.name, LIBRARY, not_run=str(error))
        info = self._host.info
        versions = {"DirectML": info.version, "feature level": info.feature_level}
        if info.wine:
            versions["wine"] = info.wine
        return LaneInfo(self.name, LIBRARY, versions, (info.adapter,))

    def answer(self, case: Case) -> Answer:
        """Run a case's descriptor."""
        if isinstance(case, NodeCase):
            why = f"{LIBRARY} runs descriptors, and no descriptor says this node"
            return Answer(AnswerKind.NOT_RUN, why)
        if (why := _why_not(case)) is not None:
            return Answer(AnswerKind.NOT_RUN, why)
        assert self._host is not None
        try:
            before = _wrong_everywhere(case)
            answer = self._host.run(case.descriptor, case.data, case.indices, before)
        except ProviderError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NOT_STARTED)
        if answer.crashed is not None:
            broken = AnswerKind.BROKEN
            return Answer(broken, answer.crashed, how=answer.how, detail=answer.detail)
        failed = f"{answer.stage} gave 0x{answer.hresult:08X}"
        if answer.stage in REFUSALS:
            return Answer(AnswerKind.REFUSED, failed)
        nodes = (f"DML_OPERATOR_{case.operator}",)
        if answer.output is None:
            return Answer(AnswerKind.FAILED, failed, nodes)
        if answer.guards_touched:
            return Answer(AnswerKind.FAILED, "bytes beside OutputTensor were written", nodes)
        return Answer(AnswerKind.RAN, None, nodes, answer.output)

    def close(self) -> None:
        """End the program."""
        if self._host is not None:
            self._host.close()


def _wrong_everywhere(case: DescriptorCase) -> Array:
    """Return what OutputTensor holds before: every bit of every element wrong, zeros between."""
    wanted = case.expected()
    assert not isinstance(wanted, str)
    bits = wanted.view(f"u{wanted.itemsize}").reshape(-1)
    before = np.zeros_like(bits)
    places = np.arange(bits.size).reshape(wanted.shape)
    own = elements(case.descriptor.output_tensor, places).reshape(-1)
    before[own] = ~bits[own]
    return before.view(wanted.dtype).reshape(wanted.shape)


def _why_not(case: DescriptorCase) -> str | None:
    """Return why a case is none for DirectML."""
    if case.wrapped:
        return f"{LIBRARY} runs descriptors, and no descriptor says a gather between operators"
    if case.out_of_range != "directml" and not case.in_range:
        return (
            f"{LIBRARY} has a rule of its own for indices out of range, which "
            f'out_of_range="{case.out_of_range}" is not'
        )
    return None
