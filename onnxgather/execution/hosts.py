"""Runs models in a host, a program beside this one, where this environment lacks the provider."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

from onnxgather.descriptors.arrays import Array
from onnxgather.execution import runtime
from onnxgather.execution.library import cache_folder
from onnxgather.execution.providers import Provider
from onnxgather.execution.runtime import (
    FailedError,
    Opened,
    RefusedError,
    Setup,
    available_providers,
)
from onnxgather.execution.worker import Worker

REQUEST_TIMEOUT = 600.0
"""Seconds that a host may take for one request of a session."""


class OpenedThere:
    """A model on a provider, in a worker: `Opened` of another program.

    Args:
        worker: The worker.
        model: The serialized model.
        setup: The provider and the number of threads; a host takes nothing else.

    Raises:
        NotRunError: The provider is missing, or did not get every node.
        RefusedError: ONNX Runtime made no session, for whatever other reason.
        NoAnswerError: The worker gives no answer.
    """

    def __init__(self, worker: Worker, model: bytes, setup: Setup) -> None:
        session = {"provider": setup.provider, "threads": setup.threads}
        self._ran = partial(worker.run, model, session, keep=True)
        self.assignment = self._ran().assignment

    def run_all(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The model's only output.

        Raises:
            FailedError: The provider failed.
            NotRunError, RefusedError, NoAnswerError: As when the model was opened; the worker opens
                it again where it ran another one since.
        """
        (output,) = self._ran([inputs]).outputs
        if isinstance(output, str):
            raise FailedError(output)
        return [output.copy()]  # a frame's bytes are read-only


def open_model(model: bytes | str, provider: Provider, setup: Setup) -> Opened | OpenedThere:
    """A model on a provider of this environment, or else of the host that runs the provider.

    Args:
        model: The serialized model, or the path of its file.
        provider: The only provider that may run its nodes.
        setup: How the model is opened.

    Raises:
        NotRunError, RefusedError, NoAnswerError: As `Opened` and `OpenedThere`.
    """
    host = find_runtime(provider)
    if not host or provider.name in available_providers():
        return Opened(model, setup)
    if setup.settings:
        raise RefusedError("the program that runs it here takes no options of the provider")
    model = Path(model).read_bytes() if isinstance(model, str) else model
    return OpenedThere(_shared(*host), model, setup)


@lru_cache
def _shared(*command: str) -> Worker:
    """The one worker of a host for all sessions of this program."""
    worker = Worker("", REQUEST_TIMEOUT, command)
    atexit.register(worker.close)
    return worker


def made_folder() -> Path:
    """The folder that `SETUP` makes."""
    return cache_folder() / "directml"


def find_runtime(provider: Provider) -> list[str]:
    """The command of the host that runs a provider; empty if it is not there.

    On Windows the provider runs as all others do and has no host.
    """
    path = made_folder() / provider.host
    worker = ["-u", runtime.__file__] if provider.host_is_python else []
    return [str(path), *worker] if sys.platform != "win32" and path.is_file() else []
