"""Descriptors and models on exactly one execution provider, with proof that it ran them."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from onnxgather.core.checks import (
    check_choice,
    listed,
    number_of,
    printable,
    shown,
    uint,
)
from onnxgather.core.descriptors.arrays import (
    Array,
    check_descriptor,
    check_indices,
    plain_array,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.errors import (
    DescriptorError,
    IndexOutOfRangeError,
    OnnxGatherError,
    ProviderError,
)
from onnxgather.core.execution import kernels, runtime
from onnxgather.core.execution.elsewhere.child import NoAnswerError
from onnxgather.core.execution.elsewhere.worker import OpenedThere, open_model
from onnxgather.core.execution.providers import find_provider, target_of
from onnxgather.core.execution.runtime import (
    CPU,
    NotRunError,
    Opened,
    RefusedError,
    Setup,
)
from onnxgather.core.lowering.graph import NATIVE_DOMAIN
from onnxgather.core.lowering.indices import LONGEST_INT32
from onnxgather.core.model.values import (
    ModelProto,
    ValueType,
    loaded,
    name_of,
    values_of,
)
from onnxgather.core.model.write import to_onnx
from onnxgather.core.options import (
    MOST_THREADS,
    TARGETS,
    OutOfRange,
    Target,
    usable_cores,
)

if TYPE_CHECKING:
    from onnxgather.core.execution.elsewhere.substitutes import Substitute

CACHED_SESSIONS = 128
"""How many sessions `run` keeps; the one used longest ago is dropped first."""

THREADED_ELEMENTS = 2**15
"""The fewest output elements for which a session has several threads; below, they cost
time."""


def run(
    desc: Descriptor,
    data: Any,
    indices: Any,
    out_of_range: OutOfRange = "clamp",
    provider: str = "cpu",
    target: Target | None = None,
) -> Array:
    """The output of a gather, computed by one execution provider.

    The session is kept for the next call with the same descriptor and options; the
    child of a fork makes sessions of its own.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        out_of_range: What an index out of range does; see `OutOfRange`.
        provider: "cpu", "directml", "openvino", … or ONNX Runtime's full name.
        target: What the model is made for; None is what suits the provider.

    Returns:
        OutputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.

    Raises:
        DescriptorError: An array does not fit its tensor.
        IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
        ProviderError: The provider is missing, fails, or did not get every node; or its arithmetic
            reads an index in part.
    """
    try:
        session = open_session(desc, out_of_range, provider, target)
    except OnnxGatherError:
        raise
    except (
        Exception
    ):  # what cannot be hashed is no descriptor and no option, and is told so
        session = open_session.__wrapped__(desc, out_of_range, provider, target)
    return session.run(data, indices)


class Session:
    """A descriptor's model, or any model, on one provider: prepared once, to run often.

    The model of a descriptor has data types that the provider has in place of those
    that it lacks; the arrays have the descriptor's.

    Several threads may use a session at once; where the provider allows one call at a
    time, the others wait. In the child of a fork, a session that was made before raises
    ProviderError.

    Args:
        source: A descriptor; or a model: an onnx.ModelProto, its bytes, or the path of its file.
        provider: "cpu", "directml", "openvino", … or ONNX Runtime's full name: the only provider
            that may run the model's nodes.
        out_of_range: What an index out of range of a descriptor does; see `OutOfRange`.
        target: What the descriptor's model is made for; None is what suits the provider: on the
            CPU "native" where the native kernels are there, else "cpu".
        threads: How many threads the provider may use, 0 for one per core that the program may
            run on; None is 1 for a descriptor with a small output, else as 0.
        provider_options: The provider's own options, as ONNX Runtime documents them.

    Raises:
        OnnxGatherError: The source is no descriptor and no model, or an option is unknown.
        ProviderError: The provider is missing, cannot start, or did not get every node.
    """

    _opened: Opened | OpenedThere | None = None
    _made_in = 0
    # These two are the class', as `__del__` may run when the names of the module are
    # gone.
    _process = staticmethod(os.getpid)
    _kept: ClassVar[list[object]] = []
    """In the child of a fork: models whose sessions are gone. Their end would wait for
    their threads, which the child does not have."""

    def __init__(
        self,
        source: Descriptor | Any,
        provider: str = "cpu",
        *,
        out_of_range: OutOfRange = "clamp",
        target: Target | None = None,
        threads: int | None = None,
        provider_options: Mapping[str, str] | None = None,
    ) -> None:
        self.provider = find_provider(provider)
        self._desc = source if isinstance(source, Descriptor) else None
        if threads is None:
            threads = 0 if self._desc is None else threads_for(self._desc)
        threads = (
            uint("threads", threads, MOST_THREADS, 0, OnnxGatherError) or usable_cores()
        )
        self._policy: OutOfRange = out_of_range
        self._substitute: Substitute | None = None
        if self._desc is not None:
            if self.provider.data_types:  # what few providers need is loaded for them
                from onnxgather.core.execution.elsewhere.substitutes import (
                    substitute_of,
                )

                self._substitute = substitute_of(self._desc, self.provider)
            given = self._substitute.given if self._substitute else self._desc
            source = self._translated(given, target, threads)
        elif target is not None or shown(out_of_range) != "'clamp'":
            raise OnnxGatherError(
                "a model has its own out_of_range and target; leave them out"
            )
        model, proto = loaded(source)
        self.inputs, self.outputs = map(self._asked, values_of(proto))
        """The data types and the sizes of the inputs and of the outputs, by their
        names."""
        self._plain = [
            (np.ndarray, kind.dtype, kind.sizes) for kind in self.inputs.values()
        ]
        is_native = any(
            imported.domain == NATIVE_DOMAIN for imported in proto.opset_import
        )
        operators = kernels.operators_of(self.provider, "native") if is_native else None
        self._narrows = self._substitute is not None and self._substitute.narrows
        # The kernels check each index that they read; a provider may let one pass.
        may_pass = (
            operators is None and self._desc is not None and out_of_range == "error"
        )
        self._checks_first = self._narrows or may_pass
        setup = Setup(
            self.provider.name, threads, operators=operators, settings=provider_options
        )
        try:
            self._opened = open_model(model, self.provider, setup)
        except Exception as error:
            raise self._told(error) from error
        self._made_in = self._process()
        self.assignment = self._opened.assignment
        """The name and the operator of each node, all run by the provider."""

    def run(self, *arrays: Any) -> Any:
        """The output for inputs; of a model with several outputs, a list of them.

        Args:
            arrays: The inputs, in the order of `inputs` (InputTensor, IndicesTensor); or one
                mapping from their names. Each is an array of numpy; or, without a copy, an
                OrtValue, or what has DLPack or a buffer, such as a tensor of torch on the CPU.

        Raises:
            DescriptorError: An array does not fit its input.
            IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
            ProviderError: The provider failed; or it is in another program, which takes numpy
                arrays alone; or the session is closed; or this is the child of a fork, and the
                session was made before.
        """
        opened = self._opened
        if opened is None or self._made_in != self._process():
            raise self._why_not()
        try:
            fits = [*map(_KIND, arrays)] == self._plain
        except Exception:  # an object may raise anything; `_fed` says what it is
            fits = False
        # As strict=True costs as much as the rest.
        feeds = dict(zip(self.inputs, arrays)) if fits else self._fed(arrays)  # noqa: B905
        if self._checks_first:
            self._check_indices(feeds)
        try:
            if self._substitute is None:
                outputs = opened.run_all(feeds)
            else:
                outputs = self._substitute.run(opened.run_all, feeds)
        except Exception as error:
            raise self._told(error, *feeds.values()) from error
        return outputs[0] if len(outputs) == 1 else outputs

    def close(self) -> None:
        """Let go of the model; a call that comes later raises ProviderError."""
        if self._opened is not None and self._made_in != self._process():
            self._kept.append(self._opened)
        self._opened = None

    def __repr__(self) -> str:
        """The provider, and the types of the inputs and of the outputs."""
        sides = (
            [f"{name} {kind}" for name, kind in x.items()]
            for x in (self.inputs, self.outputs)
        )
        told = " -> ".join(listed(side, 4) for side in sides)
        closed = ", closed" if self._opened is None else ""
        return printable(f"<Session on {self.provider.name}{closed}: {told}>")

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _translated(
        self, desc: Descriptor, target: Target | None, threads: int
    ) -> ModelProto:
        """The model of a descriptor, for the provider and for a number of threads."""
        if target is not None:
            check_choice("target", target, TARGETS)
        name = self.provider.name
        has_kernels = kernels.operators_of(self.provider, "native") is not None
        if target == "native" and name == CPU and not has_kernels:
            raise ProviderError(
                self.provider.why_not_run("operators", kernels.why_not())
            )
        suits = target_of(name, "native" if target is None and has_kernels else target)
        return to_onnx(desc, self._policy, suits, threads=threads)

    def _asked(self, values: Mapping[str, ValueType]) -> dict[str, ValueType]:
        """The types of the model's values, with the data types of the descriptor."""
        if self._substitute is None:
            return {**values}
        own = tensors(self._substitute.desc)
        types = {name: name_of(own[name].data_type.onnx) for name in values}
        return {
            name: kind._replace(data_type=types[name]) for name, kind in values.items()
        }

    def _why_not(self) -> ProviderError:
        """The error of a session that is closed, or in the child of a fork."""
        if self._opened is None:
            return ProviderError(f"the session on {self.provider.name} is closed")
        return ProviderError(
            f"the session on {self.provider.name} must run in the process that made it,"
            " got the child of a fork; make a Session in the child, start the child by"
            " spawn, or use og.Gather"
        )

    def _fed(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """The inputs by their names, checked."""
        rule, given = f"the inputs must be {', '.join(self.inputs) or 'none'}", arrays
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            named = cast("Mapping[str, Any]", arrays[0])
            if {*named} != {*self.inputs}:
                raise DescriptorError(
                    f"{rule}, got {', '.join(map(str, named)) or 'none'}"
                )
            given = [named[name] for name in self.inputs]
        if len(given) != len(self.inputs):
            raise DescriptorError(f"{rule}, got {number_of(len(given), 'array')}")
        fitting = dict(zip(self.inputs, given, strict=True))
        for name, array in fitting.items():
            kind = self.inputs[name]
            if isinstance(self._opened, OpenedThere) and not isinstance(
                array, np.ndarray
            ):
                raise ProviderError(
                    f"{self.provider.name} runs in another program here, which takes"
                    " arrays of numpy alone: no OrtValue and no DLPack"
                )
            if kind.dtype is None or (
                runtime.is_on_device(array) and self._substitute is None
            ):
                continue  # ONNX Runtime checks it
            sizes = kind.sizes if kind.is_static else str(kind).partition(" ")[2]
            rule = f"{name} must be an array of {kind.dtype} {sizes}"
            plain = fitting[name] = plain_array(rule, cast("object", array))
            if plain.dtype != kind.dtype or not kind.admits(plain.shape):
                raise DescriptorError(f"{rule}, got {plain.dtype} {plain.shape}")
        return fitting

    def _check_indices(self, feeds: dict[str, Any]) -> None:
        """Check the indices of a descriptor before the model runs.

        Raises:
            IndexOutOfRangeError: An index is out of range and the policy is "error".
            ProviderError: The provider's arithmetic reads an index in part.
        """
        desc, indices = cast("Descriptor", self._desc), feeds["IndicesTensor"]
        if self._policy == "error":  # some providers answer with zeros
            # A copy, as a provider may read on past an index that changes after the
            # check.
            indices = feeds["IndicesTensor"] = indices.copy()
            check_indices(desc, indices)
        if not self._narrows:
            return
        try:
            check_indices(desc, indices, LONGEST_INT32)
        except IndexOutOfRangeError as error:
            index_type = desc.indices_tensor.data_type
            rule = f"{self.provider.name} reads the low 32 bits of {index_type} indices"
            raise ProviderError(f"{rule}: {error}") from None

    def _told(self, error: Exception, *values: Any) -> Exception:
        """The error that tells in one sentence why a model did not run on some inputs."""
        if isinstance(error, OnnxGatherError) and not isinstance(error, NoAnswerError):
            return error
        if self._desc is not None and self._policy == "error" and values:
            try:
                check_indices(self._desc, values[1].copy())
            except IndexOutOfRangeError as outside:
                return outside
        if isinstance(error, NotRunError):
            return ProviderError(self.provider.why_not_run(error.kind, error.detail))
        what = "cannot run the model" if isinstance(error, RefusedError) else "failed"
        return ProviderError(f"{self.provider.name} {what}: {runtime.line(error)}")


_KIND = attrgetter("__class__", "dtype", "shape")


@lru_cache(maxsize=CACHED_SESSIONS)
def open_session(
    desc: Descriptor,
    out_of_range: OutOfRange,
    provider: str,
    target: Target | None = None,
) -> Session:
    """The session that `run` uses for a descriptor; it is made if it is not kept.

    Raises:
        DescriptorError: `desc` is no descriptor.
        OnnxGatherError, ProviderError: As `Session`.
    """
    check_descriptor(desc)
    return Session(desc, provider, out_of_range=out_of_range, target=target)


if sys.platform != "win32":  # the sessions of a parent do not run in its child
    os.register_at_fork(after_in_child=open_session.cache_clear)


def threads_for(desc: Descriptor) -> int:
    """How many threads a session has for a descriptor."""
    few = math.prod(desc.output_tensor.sizes) < THREADED_ELEMENTS
    return 1 if few else usable_cores()
