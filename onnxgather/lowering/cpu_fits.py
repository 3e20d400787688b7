"""When each form of the CPU lowering is taken: sizes, types, threads, and the measured limits."""

from __future__ import annotations

from onnxgather.descriptors import GatherDesc, GatherElementsDesc
from onnxgather.lowering import cpu_forms as forms
from onnxgather.lowering.cpu_indices import EXACT_FLOAT, tiles_of
from onnxgather.lowering.facts import Facts
from onnxgather.lowering.graph import size_of
from onnxgather.lowering.portable import natural_node

SMALL = 512
"""Output elements below which every form costs about the same, a few microseconds of calls."""

MANY_THREADS = 8
"""Threads from which Gather, which shares its work, beats the one long row of GatherElements."""

DENSE = 1024
"""Fewest rows that are worth a transposed table; it needs half as many as the table has, too."""

NARROW = 4
"""Longest row, in elements, that one thread gathers column by column."""

NARROW_SHARED = 2
"""The same for several threads, as Gather shares its rows among them."""

SMALLEST_SLICE, LARGEST_SLICE = 2**19, 2**22
"""Bytes of a slice that is copied into the cache before its elements are gathered."""

SHORT = 64
"""Longest row, in elements, for which Gather by row numbers beats GatherND."""

TILE = 2**16
"""Bytes or narrow rows that are gathered at once, so that their indices stay in the cache."""


def _worth_it(facts: Facts) -> bool:
    """Whether the data can be reshaped at will and the output is not small."""
    small = facts.elements < SMALL
    wide = size_of(facts.desc.input_tensor.sizes) >= 2**31
    return facts.plain_data and not small and not wide


def _clamps(facts: Facts) -> bool:
    return facts.out_of_range == "clamp"


def _checked(facts: Facts) -> bool:
    """Whether the policy is one that an appended zero, the clamp or the operator itself gives."""
    if facts.out_of_range == "zero":  # costs a copy of the data
        return size_of(facts.desc.input_tensor.sizes) <= 4 * facts.elements
    return facts.out_of_range in ("clamp", "error")


def _one_table(facts: Facts) -> bool:
    """Whether one index chooses a row of one table."""
    plain = facts.plain_indices and facts.before == 1
    return isinstance(facts.desc, GatherDesc) and plain


def _few_threads(facts: Facts) -> bool:
    return facts.threads < MANY_THREADS


def _tuples(facts: Facts) -> bool:
    """Whether tuples choose the rows and may be turned into row numbers."""
    is_tuple = not isinstance(facts.desc, GatherDesc | GatherElementsDesc)
    if not (is_tuple and facts.plain_indices):
        return False
    if facts.out_of_range == "zero":
        exact = (len(facts.axes) + 1) * facts.table <= EXACT_FLOAT
        return facts.before == 1 and exact and _checked(facts)
    return _clamps(facts)


def pattern(facts: Facts) -> bool:
    """Known indices along the last dimension that run, repeat, roll or tile."""
    return _worth_it(facts) and facts.pattern is not None


def transposed(facts: Facts) -> bool:
    """GATHER of data whose strides are a permutation; DirectML's own rule looks at the strides."""
    allowed = facts.out_of_range != "directml" and facts.elements >= SMALL
    return allowed and facts.transposed is not None


def single(facts: Facts) -> bool:
    """One row of one table."""
    desc = facts.desc
    row = size_of(facts.sizes[:-1]) == 1 and facts.sizes[-1] == facts.row > 1
    checked = facts.out_of_range in ("clamp", "error") and facts.known is None
    gather = isinstance(desc, GatherDesc) and size_of(desc.indices_tensor.sizes) == 1
    plain = facts.plain_data and facts.plain_indices and facts.ready is None
    return gather and row and checked and plain


def elements(facts: Facts) -> bool:
    """Single elements of one table."""
    if not (_worth_it(facts) and _few_threads(facts) and facts.row == 1):
        return False
    if not forms.can_lay_out(facts.sizes) or not facts.plain_indices:
        return False
    if facts.out_of_range == "directml":
        # One size-1 axis of GATHER_ELEMENTS has stride 0, and batches begin elsewhere.
        return facts.before == 1 and facts.known is None and facts.axes != (1,)
    if isinstance(facts.desc, GatherElementsDesc):
        return _checked(facts) and facts.before == 1
    return (_one_table(facts) and _checked(facts)) or _tuples(facts)


def tiles(facts: Facts) -> int:
    """Into how many tiles bytes or narrow rows fall; 1 where all at once is faster.

    The tiles are copied into the output, so that longer single elements gain nothing.
    """
    bytes_or_rows = facts.desc.input_tensor.data_type.size == 1 or facts.row > 1
    shared = facts.row > 1 and facts.threads > 1
    given = facts.known is None and facts.ready is None and not facts.place.has_tuples
    return tiles_of(facts.count, TILE) if given and bytes_or_rows and not shared else 1


def columns(facts: Facts) -> bool:
    """Single elements at the same places of many rows."""
    desc = facts.desc
    if not (isinstance(desc, GatherDesc) and facts.plain_indices and facts.row == 1):
        return False
    places = facts.count // facts.before
    direct = facts.sizes[-1] == places
    # ArrayFeatureExtractor never loses, however few the elements.
    tiny = direct and forms.can_extract(facts) and facts.plain_data
    several = places >= 8 and (direct or forms.can_lay_out(facts.sizes))
    worth = tiny or (_worth_it(facts) and several)
    return worth and _checked(facts) and facts.before > 1


def narrow(facts: Facts) -> bool:
    """Rows of a few elements of one table."""
    dense = facts.count >= max(DENSE, facts.table // 2)
    chosen = (_one_table(facts) and _checked(facts)) or _tuples(facts)
    longest = NARROW if facts.threads == 1 else NARROW_SHARED
    return _worth_it(facts) and chosen and 1 < facts.row <= longest and dense


def short(facts: Facts) -> bool:
    """Short rows that tuples choose."""
    return _worth_it(facts) and _tuples(facts) and 1 < facts.row < SHORT


def repeated(facts: Facts) -> bool:
    """GATHER_ELEMENTS whose indices have stride 0 behind Axis: rows, not elements."""
    desc, tensor = facts.desc, facts.desc.indices_tensor
    if not isinstance(desc, GatherElementsDesc) or not _worth_it(facts) or facts.known is not None:
        return False
    if tensor.strides is None or facts.out_of_range not in ("clamp", "error") or facts.row == 1:
        return False
    behind = zip(tensor.sizes[desc.axis + 1 :], tensor.strides[desc.axis + 1 :], strict=True)
    return all(size == 1 or stride == 0 for size, stride in behind)


def narrow_elements(facts: Facts) -> bool:
    """GATHER_ELEMENTS of rows of a few elements."""
    elements = isinstance(facts.desc, GatherElementsDesc) and facts.plain_indices
    cheap = 1 < facts.row <= NARROW and facts.before == 1 and forms.can_lay_out(facts.sizes)
    return _worth_it(facts) and elements and cheap and _clamps(facts) and _few_threads(facts)


def turned(facts: Facts) -> bool:
    """GATHER_ELEMENTS with nothing but ones behind Axis."""
    desc = facts.desc
    if not isinstance(desc, GatherElementsDesc) or not facts.plain_indices:
        return False
    checked = facts.out_of_range in ("clamp", "error")
    last = len(facts.sizes) - 1
    return _worth_it(facts) and checked and facts.row == 1 and desc.axis < last


def slices(facts: Facts) -> bool:
    """GATHER_ELEMENTS along the last dimension, from slices that fit the cache one by one."""
    desc, sizes = facts.desc, facts.desc.input_tensor.sizes
    if not isinstance(desc, GatherElementsDesc) or not _worth_it(facts) or facts.known is not None:
        return False
    dense = facts.sizes[-1] >= sizes[-1] // 8
    slice_bytes = size_of(sizes[1:]) * desc.input_tensor.data_type.size
    cached = SMALLEST_SLICE <= slice_bytes <= LARGEST_SLICE and sizes[0] > 1
    last = desc.axis == len(sizes) - 1 > 0
    unsigned = not desc.indices_tensor.data_type.is_signed
    return last and dense and cached and unsigned and _clamps(facts)


def guarded(facts: Facts) -> bool:
    """A policy that only indices out of range make slow, and one index for each element or row."""
    one = isinstance(facts.desc, GatherDesc | GatherElementsDesc) and facts.known is None
    special = facts.out_of_range in ("zero", "directml")
    return one and special and _worth_it(facts) and natural_node(facts.desc) is not None


def natural(facts: Facts) -> bool:
    """Whatever ONNX's own operator says."""
    return facts.out_of_range in ("clamp", "error") and natural_node(facts.desc) is not None
