"""Descriptors and models on one execution provider, with proof that it ran them."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from onnxgather.core.checks import (
    check_choice,
    check_texts,
    line_of,
    listed,
    number_of,
    shown,
    uint,
)
from onnxgather.core.descriptors.arrays import (
    Array,
    check_descriptor,
    check_indices,
    check_policy,
    plain_array,
)
from onnxgather.core.descriptors.lists import array_of_list, is_listed
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.errors import (
    FAULTS,
    DescriptorError,
    IndexOutOfRangeError,
    OnnxGatherError,
    ProviderError,
)
from onnxgather.core.execution import kernels, runtime
from onnxgather.core.execution.elsewhere.child import NoAnswerError
from onnxgather.core.execution.elsewhere.worker import (
    OpenedProgram,
    OpenedThere,
    open_model,
)
from onnxgather.core.execution.providers import (
    OUT_OF_RANGE,
    REPORT,
    find_provider,
    target_of,
)
from onnxgather.core.execution.runtime import (
    CPU,
    NotRunError,
    Opened,
    RefusedError,
    Setup,
)
from onnxgather.core.lowering.graph import NATIVE_DOMAIN
from onnxgather.core.lowering.portable import OUTPUT
from onnxgather.core.model.values import (
    ModelProto,
    ValueType,
    loaded,
    name_of,
    sizes_text,
    values_of,
)
from onnxgather.core.model.write import descriptor_model, to_onnx_for_webnn
from onnxgather.core.options import (
    MOST_THREADS,
    TARGETS,
    OutOfRange,
    Target,
    usable_cores,
)
from onnxgather.core.public import public

if TYPE_CHECKING:
    from onnxgather.core.execution.elsewhere.substitutes import Substitute

CACHED_SESSIONS = 128
"""How many sessions `run` keeps; the least recently used session is dropped first."""

THREADED_ELEMENTS = 2**15
"""The fewest output elements for which a session has several threads; below, they cost
time."""


@public
def run(
    desc: Descriptor,
    data: Any,
    indices: Any,
    out_of_range: OutOfRange = "clamp",
    provider: str = "cpu",
    target: Target | None = None,
) -> Array:
    """Return the output of a gather, computed by one execution provider.

    The session is kept for the next call with the same descriptor and options; the
    child of a fork makes sessions of its own.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has
            strides; or nested lists of numbers.
        indices: IndicesTensor, likewise.
        out_of_range: What an index out of range does; see `OutOfRange`.
        provider: "cpu", "directml", "openvino", … or ONNX Runtime's full name.
        target: What the model is made for; None is what suits the provider.

    Returns:
        OutputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.

    Raises:
        DescriptorError: An array does not fit its tensor.
        IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
        ProviderError: The provider is missing, fails, or did not get every node; or it
            would read another element for an index.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> og.run(desc, data, np.array([[2, 7]], np.int64), provider="cpu")
        array([[5., 6.],
               [5., 6.]], dtype=float32)
    """
    try:
        session = open_session(desc, out_of_range, provider, target)
    except FAULTS:
        # An argument cannot be hashed, so it is not valid. Without the cache the error
        # names it.
        session = open_session.__wrapped__(desc, out_of_range, provider, target)
    return session.run(data, indices)


@public
class Session:
    """The model of a descriptor, or any model, on one provider: prepared to run often.

    In the model of a descriptor, data types that the provider lacks are replaced by
    types that it has, and indices by those that lead to the same elements; the arrays
    have the types of the descriptor. A model runs as it is: a provider may compute
    otherwise than ONNX says.

    "onnxgather" is a provider that runs gathers and nothing else, and the CPU runs the
    rest, also gathers of texts and of shapes. `out_of_range` is the rule of the gathers
    on the provider; a model without such a gather is refused. Its library is registered
    in the process, as by `add_provider`.

    Several threads may use a session at once; where the provider allows one call at a
    time, the others wait. In the child of a fork, a session that was made before raises
    ProviderError.

    Args:
        source: A descriptor; or a model: an onnx.ModelProto, its bytes, or the path of
            its file.
        provider: "cpu", "directml", "openvino", … or ONNX Runtime's full name: the only
            provider that may run the model's nodes, "onnxgather" alone excepted.
            "webnn" runs the WebNN program of a descriptor in a browser.
        out_of_range: What an index out of range does; see `OutOfRange`. None is "clamp"
            for a descriptor; for a model on "onnxgather" it is "error", as ONNX says.
            On another provider a model has its own.
        target: What the descriptor's model is made for; None is what suits the
            provider: on the CPU "native" where the native kernels are there, else
            "cpu".
        threads: How many threads the provider may use; 0 means a thread for each core
            that the program may use; None is 1 for a descriptor with a small output,
            else as 0.
        provider_options: The provider's own options, as ONNX Runtime documents them.

    Raises:
        OnnxGatherError: The source is no descriptor and no model, or an option is
            unknown.
        ProviderError: The provider is missing, cannot start, or did not get every node.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> with og.Session(desc, "cpu") as session:
        ...     session.run(data, np.array([[2, 0]], np.int64))
        array([[5., 6.],
               [1., 2.]], dtype=float32)
    """

    _opened: Opened | OpenedThere | OpenedProgram | None = None
    _made_in = 0
    # These two belong to the class, as `__del__` may run when the names of the module
    # are gone.
    _process = staticmethod(os.getpid)
    _kept: ClassVar[list[object]] = []
    """In the child of a fork: models whose sessions are gone.

    Their end would wait for their threads, which the child does not have.
    """

    def __init__(
        self,
        source: Descriptor | Any,
        provider: str = "cpu",
        *,
        out_of_range: OutOfRange | None = None,
        target: Target | None = None,
        threads: int | None = None,
        provider_options: Mapping[str, str] | None = None,
    ) -> None:
        self.provider = find_provider(provider)
        self._desc = source if isinstance(source, Descriptor) else None
        # A model on onnxgather's provider has the rule of ONNX itself.
        self._policy: OutOfRange = "error" if self.provider.gathers_alone else "clamp"
        if out_of_range is not None:
            self._policy = check_policy(out_of_range)
        self._substitute: Substitute | None = None
        if provider_options is not None:
            provider_options = check_texts("provider_options", provider_options)
        if threads is None:
            threads = 0 if self._desc is None else threads_for(self._desc)
        threads = uint("threads", threads, MOST_THREADS, 0, OnnxGatherError)
        if threads == 0:
            threads = usable_cores()
        if self.provider.runs_programs:
            self._check_program(target, provider_options)
        elif self.provider.gathers_alone:
            provider_options = self._gather_options(target, provider_options)
        elif self._desc is not None:
            source = self._model_of(self._desc, target, threads)
        elif target is not None or out_of_range is not None:
            raise OnnxGatherError(
                "a model has its own out_of_range and target; leave them out, or give"
                ' out_of_range with the provider "onnxgather"'
            )
        operators = None
        if self._desc is not None and self.provider.runs_programs:
            values = _values_of_descriptor(self._desc)
            opening = self._opening_of_program(self._desc)
        else:
            model, proto = loaded(source)
            values = values_of(proto)
            # Case: the model may have other data types, and other indices.
            if self._substitute is not None:
                values = _values_of_descriptor(self._substitute.desc)
            if any(imported.domain == NATIVE_DOMAIN for imported in proto.opset_import):
                operators = kernels.operators_of(self.provider, "native")
            library = None
            if self.provider.gathers_alone:
                library = kernels.custom_ops_library()
            setup = Setup(
                self.provider.name,
                threads,
                library,
                operators=operators,
                settings=provider_options,
                cpu_too=self.provider.gathers_alone,
            )
            opening = partial(open_model, model, self.provider, setup)
        self.inputs, self.outputs = values
        """The data types and the sizes of the inputs and of the outputs, by their
        names."""
        self._plain = [
            (np.ndarray, value_type.dtype, value_type.sizes)
            for value_type in self.inputs.values()
        ]
        """The inputs as numpy arrays that need no more checks."""
        # The kernels check each index that they read; a provider may let an index out
        # of range pass.
        self._checks_first = (
            operators is None and self._desc is not None and self._policy == "error"
        )
        try:
            self._opened = opening()
            # Case: the CPU provider runs all nodes of a model.
            if not self._opened.assignment:
                raise NotRunError("folded", runtime.NO_GATHER)
        except Exception as error:
            raise self._why_it_failed(error) from error
        self._made_in = self._process()
        self.assignment = self._opened.assignment
        """The name and the operator of each node that the provider runs: of all nodes,
        or on "onnxgather" of its gathers."""

    def run(self, *arrays: Any) -> Any:
        """Return the output; of a model with several outputs, return a list of them.

        Args:
            arrays: The inputs, in the order of `inputs` (InputTensor, IndicesTensor);
                or a single mapping from their names. An input is a numpy array; or,
                without a copy, an OrtValue, or an object with DLPack or a buffer, such
                as a tensor of torch on the CPU. Those of a descriptor may be nested
                lists of numbers.

        Raises:
            DescriptorError: An array does not fit its input.
            IndexOutOfRangeError: An index is out of range and `out_of_range` is
                "error"; the message of a model on "onnxgather" names the gather.
            ProviderError: The provider failed; or it is in another program, which
                accepts numpy arrays alone; or the session is closed; or this is the
                child of a fork, and the session was made before.
        """
        opened = self._opened
        if opened is None or self._made_in != self._process():
            raise self._why_not()
        # Numpy arrays that fit as they are take the shortest way.
        try:
            fits = [*map(_CLASS_DTYPE_SHAPE, arrays)] == self._plain
        except FAULTS:  # of an object; `_checked` says what it is
            fits = False
        if fits:  # noqa: SIM108
            # Without strict=True, which costs as much as the rest.
            feeds = dict(zip(self.inputs, arrays))  # noqa: B905
        else:
            feeds = self._checked(arrays)
        if self._checks_first:
            self._check_indices(feeds)
        try:
            if self._substitute is None:
                outputs = opened.run_all(feeds)
            else:
                outputs = self._substitute.run(opened.run_all, feeds)
        except Exception as error:
            raise self._why_it_failed(error, *feeds.values()) from error
        return outputs[0] if len(outputs) == 1 else outputs

    def close(self) -> None:
        """Release the model; a later call raises ProviderError."""
        if self._opened is not None and self._made_in != self._process():
            self._kept.append(self._opened)
        self._opened = None

    def __repr__(self) -> str:
        """Return the provider, and the types of the inputs and of the outputs."""
        closed = ", closed" if self._opened is None else ""
        values = f"{_listed_values(self.inputs)} -> {_listed_values(self.outputs)}"
        return line_of(f"<Session on {self.provider.name}{closed}: {values}>")

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_program(self, target: object, options: object) -> None:
        """Check that WebNN can run the source: a descriptor without further options.

        Raises:
            ProviderError: The source is a model, or there is an option for models.
        """
        name = self.provider.name
        if self._desc is None:
            rule = f"{name} must run a descriptor, got an ONNX model"
            raise ProviderError(f"{rule}; provider web-webnn runs models")
        if target is not None or options:
            what = "a target" if target is not None else "options of a provider"
            rule = f"{name} must have none of the options of ONNX models, got {what}"
            raise ProviderError(f"{rule}; provider web-webnn runs models")

    def _gather_options(
        self, target: object, options: Mapping[str, str] | None
    ) -> dict[str, str]:
        """Return the options of onnxgather's own provider, which must run a model.

        Raises:
            ProviderError: The source is a descriptor.
            OnnxGatherError: The policy is unknown, or there is an option for models
                that onnxgather makes.
        """
        name = self.provider.name
        if self._desc is not None:
            raise ProviderError(
                f"{name} must run an ONNX model, got a descriptor; provider cpu runs"
                " descriptors"
            )
        if target is not None:
            raise OnnxGatherError("a model has its own target; leave it out")
        for option in options or {}:
            if option != REPORT:
                raise OnnxGatherError(
                    f"the options of {name} must be {REPORT} alone, as {OUT_OF_RANGE}"
                    f" is an argument, got {shown(option)}"
                )
        return {**(options or {}), OUT_OF_RANGE: self._policy}

    def _opening_of_program(self, desc: Descriptor) -> Callable[[], OpenedProgram]:
        """Return what opens the WebNN program of a descriptor."""
        # It is imported here, as only this provider needs it.
        from onnxgather.core.lowering.webnn.program import to_webnn

        module = to_webnn(desc, self._policy).to_javascript()
        return partial(OpenedProgram, desc, module, self.provider)

    def _model_of(
        self, desc: Descriptor, target: Target | None, threads: int
    ) -> ModelProto:
        """Return the model of a descriptor that the provider runs.

        Sets `_substitute` where the provider lacks a data type of the descriptor.
        """
        if self.provider.data_types:
            # It is imported here, as few providers need it.
            from onnxgather.core.execution.elsewhere.substitutes import substitute_of

            self._substitute = substitute_of(desc, self.provider, self._policy)
            if self._substitute is not None:
                desc = self._substitute.given
        if target is not None:
            target = check_choice("target", target, TARGETS)
        name = self.provider.name
        has_kernels = kernels.operators_of(self.provider, "native") is not None
        if target == "native" and name == CPU and not has_kernels:
            detail = kernels.why_not()
            raise ProviderError(self.provider.why_not_run("operators", detail))
        if target is None and has_kernels:
            target = "native"
        if target is None and self.provider.needs_webnn:
            return to_onnx_for_webnn(desc, self._policy)
        suitable = target_of(name, target)
        return descriptor_model(desc, self._policy, suitable, threads=threads)

    def _why_not(self) -> ProviderError:
        """Return the error of a session that is closed, or in the child of a fork."""
        if self._opened is None:
            return ProviderError(f"the session on {self.provider.name} is closed")
        return ProviderError(
            f"the session on {self.provider.name} must run in the process that made it,"
            " got the child of a fork; make a Session in the child, start the child by"
            " spawn, or use og.Gather"
        )

    def _checked(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """Return the inputs by their names, checked; numpy arrays where they can be."""
        rule = f"the inputs must be {', '.join(self.inputs) or 'none'}"
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            mapping = cast("Mapping[str, Any]", arrays[0])
            if {*mapping} != {*self.inputs}:
                names = ", ".join(map(str, mapping)) or "none"
                raise DescriptorError(f"{rule}, got {names}")
            arrays = [mapping[name] for name in self.inputs]
        if len(arrays) != len(self.inputs):
            raise DescriptorError(f"{rule}, got {number_of(len(arrays), 'array')}")
        feeds: dict[str, Any] = {}
        for name, array in zip(self.inputs, arrays, strict=True):
            feeds[name] = self._checked_input(name, array)
        return feeds

    def _checked_input(self, name: str, array: Any) -> Any:
        if self._desc is not None and is_listed(array):
            return array_of_list(name, tensors(self._desc)[name], array)
        value_type = self.inputs[name]
        takes_numpy_alone = isinstance(self._opened, OpenedThere | OpenedProgram)
        if takes_numpy_alone and not isinstance(cast("object", array), np.ndarray):
            raise ProviderError(
                f"{self.provider.name} runs in another program here, which takes"
                " arrays of numpy alone: no OrtValue and no DLPack"
            )
        # ONNX Runtime itself checks texts, sequences and what is on a device.
        if value_type.dtype is None:
            return array
        if runtime.is_on_device(array) and self._substitute is None:
            return array
        sizes: object = value_type.sizes
        if not value_type.is_static:
            sizes = "" if value_type.sizes is None else sizes_text(value_type.sizes)
        rule = f"{name} must be an array of {value_type.dtype} {sizes}"
        plain = plain_array(rule, cast("object", array))
        if plain.dtype != value_type.dtype or not value_type.admits(plain.shape):
            raise DescriptorError(f"{rule}, got {plain.dtype} {plain.shape}")
        return plain

    def _check_indices(self, feeds: dict[str, Any]) -> None:
        """Check the indices of a descriptor before the model runs.

        Raises:
            IndexOutOfRangeError: An index is out of range.
        """
        # A copy, as a provider may read on past an index that changes after the check.
        indices = feeds["IndicesTensor"].copy()
        feeds["IndicesTensor"] = indices
        check_indices(cast("Descriptor", self._desc), indices)

    def _why_it_failed(self, error: Exception, *inputs: Any) -> Exception:
        """Return an error that says in one sentence why a model did not run."""
        if isinstance(error, OnnxGatherError) and not isinstance(error, NoAnswerError):
            return error
        if not isinstance(error, NoAnswerError):
            runtime.raise_unless_own(error)
        # Case 1: the native kernels refused an index.
        if self._desc is not None and self._policy == "error" and inputs:
            try:
                check_indices(self._desc, inputs[1].copy())
            except IndexOutOfRangeError as outside:
                return outside
        # Case 2: onnxgather's own provider refused an index.
        refused = _REFUSED_INDEX.search(str(error))
        if self.provider.gathers_alone and refused is not None:
            return IndexOutOfRangeError(refused[0])
        # Case 3: the provider did not get the model.
        if isinstance(error, NotRunError):
            return ProviderError(self.provider.why_not_run(error.kind, error.detail))
        # Case 4: the provider got the model and refused it, or failed.
        what = "cannot run the model" if isinstance(error, RefusedError) else "failed"
        return ProviderError(f"{self.provider.name} {what}: {runtime.line(error)}")


_REFUSED_INDEX = re.compile(
    r"Gather(Elements|ND)? '.*': IndicesTensor(\[[0-9,]+\])? must be in .*"
    r", got -?[0-9]+$"
)
"""The end of the message of onnxgather's provider where a gather refuses an index."""

_CLASS_DTYPE_SHAPE = attrgetter("__class__", "dtype", "shape")


def _values_of_descriptor(
    desc: Descriptor,
) -> tuple[dict[str, ValueType], dict[str, ValueType]]:
    """Return the values of a descriptor's inputs and of its output, by their names."""
    values: dict[str, ValueType] = {}
    for name, tensor in tensors(desc).items():
        data_type = name_of(tensor.data_type.onnx)
        values[name] = ValueType(data_type, tensor.array_shape)
    outputs = {OUTPUT: values.pop(OUTPUT)}
    return values, outputs


def _listed_values(values: Mapping[str, ValueType]) -> str:
    texts = [f"{name} {value_type}" for name, value_type in values.items()]
    return listed(texts, 4)


@lru_cache(maxsize=CACHED_SESSIONS)
def open_session(
    desc: Descriptor,
    out_of_range: OutOfRange,
    provider: str,
    target: Target | None = None,
) -> Session:
    """Return the session that `run` uses for a descriptor; make it if it is not kept.

    Raises:
        DescriptorError: `desc` is no descriptor.
        OnnxGatherError, ProviderError: As `Session`.
    """
    check_descriptor(desc)
    return Session(desc, provider, out_of_range=out_of_range, target=target)


if sys.platform != "win32":  # the sessions of a parent do not run in its child
    os.register_at_fork(after_in_child=open_session.cache_clear)


def threads_for(desc: Descriptor) -> int:
    """Return how many threads a session uses for a descriptor."""
    is_small = math.prod(desc.output_tensor.sizes) < THREADED_ELEMENTS
    return 1 if is_small else usable_cores()
