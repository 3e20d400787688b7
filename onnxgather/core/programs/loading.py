"""Programs read from any form: a file, a dict, or a model that onnxgather wrote."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from os import PathLike

from onnxgather.core.checks import mapping, path_text, shown
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import from_dict, tensors
from onnxgather.core.errors import (
    FileFormatError,
    OnnxGatherError,
    located,
    pass_foreign,
)
from onnxgather.core.files import is_model
from onnxgather.core.model.own import (
    ModelEntry,
    entries_in,
    entries_of,
    is_own_key,
    own_entry,
)
from onnxgather.core.model.protos import external_files
from onnxgather.core.model.values import (
    DIRECTML_NAMES,
    ModelProto,
    ValueType,
    load_light,
    load_model,
)
from onnxgather.core.model.wire import Weights, whole_model
from onnxgather.core.programs.program import (
    BARE,
    Dispatchable,
    OwnModel,
    Program,
    program_of,
    read_program,
)
from onnxgather.core.public import public

OF_ANOTHER_GRAPH = "are of another graph"
"""What is wrong with the metadata of a model that was changed since onnxgather wrote
it."""

_UNREADABLE = "cannot be read"


@public
def load(
    source: str | PathLike[str] | Mapping[str, object] | ModelProto,
    *,
    allow_outside: bool = False,
) -> Program:
    """Read a program, a descriptor, or the descriptor of a model.

    Args:
        source: The path of a DxDispatch program, of a bare descriptor, of a list of
            them, or of an ONNX model that onnxgather wrote from a descriptor; or what
            such a file holds, as a dict or an `onnx.ModelProto`.
        allow_outside: Whether the files that a program names may be outside of its
            folder and the current folder.

    Returns:
        The program; its `dispatches` have name, descriptor, data, indices and
        `out_of_range`.

    Raises:
        FileFormatError: The source is none of these; the message has the file and the
            path to the field.
        DescriptorError: A descriptor breaks a rule of DirectML.
        OnnxGatherError: The file of a model cannot be read.

    Example:
        >>> (gather,) = og.load("models/gather_3_swap_columns.json").dispatches
        >>> gather.data
        array([[1., 2.],
               [3., 4.],
               [5., 6.]], dtype=float32)
        >>> gather.indices
        array([[1, 0]], dtype=uint32)
        >>> og.reference(gather.descriptor, gather.data, gather.indices)
        array([[2., 1.],
               [4., 3.],
               [6., 5.]], dtype=float32)
    """
    if isinstance(source, ModelProto):
        return program_of_model(source, "the model")
    if isinstance(source, Mapping):
        program = mapping("source", source)
        return program_of(program, "the program", allow_outside=allow_outside)
    path = path_text("source", source, "a path, a dict or an onnx.ModelProto")
    if is_model(path):
        return program_of_model(load_model(path), path)
    return read_program(path, allow_outside=allow_outside)


def program_of_model(model: ModelProto, name: str) -> Program:
    """Return the program of a model that onnxgather wrote from a descriptor.

    Args:
        model: The model.
        name: The file of the model, as messages name it.

    Raises:
        FileFormatError: It is a model of others, or the whole of a program.
        DescriptorError: The descriptor of its metadata breaks a rule of DirectML.
    """
    program = own_program(model, name)
    if program is not None:
        return program
    found = "another model"
    fault = fault_of_metadata(model)
    if fault:
        found = f"one whose metadata of onnxgather {fault}"
    raise FileFormatError(
        f"{name}: must be a model that onnxgather wrote from a descriptor, got {found};"
        " onnxgather audit (in Python og.audit) lists its gathers, and onnxgather"
        " extract writes programs of them"
    )


def model_with_entry(path: str) -> tuple[ModelProto, Weights] | None:
    """Return the model in a file as `load_light` does.

    None if nothing says that onnxgather wrote it: a large model of others is not read
    for its metadata alone.

    Raises:
        OnnxGatherError: The file cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            if not entries_in(stream):
                return None
    # Case: whoever reads the file next says what is wrong with it.
    except (OSError, ValueError) as error:
        pass_foreign(error)
        return None
    return load_light(path)


def fault_of_metadata(model: ModelProto, weights: Weights | None = None) -> str:
    """Return why what onnxgather wrote into the metadata of a model does not count.

    It ends a sentence, such as `are of another graph`. It is empty if that counts, or
    if there is nothing of onnxgather.

    Args:
        model: The model.
        weights: The constants that the model lacks.
    """
    if own_entry(model, weights) is not None:
        return ""
    if entries_of(model):
        return OF_ANOTHER_GRAPH
    # Case: a user changed them, or another version of onnxgather wrote them.
    if any(is_own_key(prop.key) for prop in model.metadata_props):
        return _UNREADABLE
    return ""


def own_program(
    model: ModelProto, name: str, weights: Weights | None = None
) -> Program | None:
    """Return the program of a model that onnxgather wrote; None for a model of others.

    Args:
        model: The model.
        name: The file of the model, as messages name it.
        weights: The constants that the model lacks.

    Raises:
        FileFormatError: It is the whole of a program, or its metadata do not fit it.
        DescriptorError: The descriptor of its metadata breaks a rule of DirectML.
    """
    entry = own_entry(model, weights)
    # The digest does not cover external data.
    if entry is None or external_files(model):
        return None
    if entry.program is not None:
        rule = "the model must be of one descriptor"
        whole = f"the whole program {shown(entry.program)}"
        raise FileFormatError(f"{name}: {rule}, got {whole}; give the program itself")
    # Case: such as a hardened model, whose gathers somebody else wrote.
    if entry.descriptor is None or entry.out_of_range is None or entry.target is None:
        return None
    if weights:
        model = whole_model(model, weights)
    own = OwnModel(model, entry.out_of_range, entry.target)
    with located(name), located("its metadata"):
        return _program_of_entry(own, entry, name)


def changed_program(
    model: ModelProto, name: str, weights: Weights | None
) -> Program | None:
    """Return the program that a model was made from that was changed since.

    It is None if no entry of the model has a descriptor that fits its inputs and
    outputs.

    Args:
        model: The model.
        name: As of `own_program`.
        weights: As of `own_program`.
    """
    if weights:
        model = whole_model(model, weights)
    for entry in entries_of(model):
        if entry.out_of_range is None or entry.target is None:
            continue
        own = OwnModel(model, entry.out_of_range, entry.target)
        with suppress(OnnxGatherError):
            return _program_of_entry(own, entry, name)
    return None


def _program_of_entry(own: OwnModel, entry: ModelEntry, name: str) -> Program:
    """Return the program of the descriptor of an entry; errors are as of `_fitting`."""
    desc = _fitting(own.proto, entry)
    return Program(name, {}, {BARE: Dispatchable(desc, {}, "")}, (), model=own)


def _fitting(model: ModelProto, entry: ModelEntry) -> Descriptor:
    """Return the descriptor of an entry, which the model's inputs and output fit.

    Raises:
        FileFormatError: They do not fit, or the entry has no descriptor.
        DescriptorError: The descriptor breaks a rule of DirectML.
    """
    desc = from_dict(entry.descriptor)
    values = [*model.graph.input, *model.graph.output]
    names = [value.name for value in model.graph.input]
    # A proof finds the inputs by these names, and a run by their order.
    is_turned = names[:1] and names[0].endswith("IndicesTensor")
    if is_turned or any(name.endswith("InputTensor") for name in names[1:]):
        rule = "the model's inputs must be in the order InputTensor, IndicesTensor"
        raise FileFormatError(f"{rule}, got {', '.join(map(shown, names))}")
    roles = tensors(desc)
    if len(values) != len(roles):
        rule = f"the model must have {len(roles)} inputs and outputs"
        raise FileFormatError(
            f"{rule}, as the descriptor has tensors, got {len(values)}"
        )
    for value, (role, tensor) in zip(values, roles.items(), strict=True):
        found = ValueType.of(value)
        data_type = DIRECTML_NAMES.get(found.data_type, found.data_type)
        found = found._replace(data_type=data_type)
        wanted = ValueType(tensor.data_type.name, tensor.array_shape)
        if found != wanted:
            rule = f"the model's {shown(value.name)} must be {wanted}"
            why = f"as {role} of the descriptor is"
            raise FileFormatError(f"{rule}, {why}, got {found}")
    return desc
