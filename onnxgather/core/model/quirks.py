"""What ONNX Runtime does otherwise than ONNX's specification says, one row each.

A row names a behaviour of the CPU provider, or of the graphs that ONNX
Runtime makes of a model, and the rule that keeps audits and certificates true there.
The test of a row shows the behaviour on the installed ONNX Runtime, and fails where it
is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

OptimizationLevel: TypeAlias = Literal["disabled", "basic", "extended", "all"]

OPTIMIZATION_LEVELS: Mapping[OptimizationLevel, int] = {
    "disabled": 0,
    "basic": 1,
    "extended": 2,
    "all": 99,
}
"""ONNX Runtime's number of each level of optimization. A level does what those before
it do."""

MEASURED = ("1.24.4", "1.32.0")
"""The versions of ONNX Runtime that each row was measured on."""


class Quirk(Struct, frozen=True):
    """A behaviour of ONNX Runtime that audits or certificates know."""

    name: str
    behaviour: str
    """What ONNX Runtime does, as a sentence."""
    level: OptimizationLevel
    """The first level of optimization that shows it; "disabled" for a kernel's."""
    rule: str
    """What audits and certificates do because of it, as a sentence."""
    code: tuple[str, ...]
    """The functions, classes and modules of the package that apply the rule. Each names
    the row in its source."""
    versions: tuple[str, ...] = MEASURED
    """The measured versions of ONNX Runtime that show it."""
    last_level: OptimizationLevel = "all"
    """The last level of optimization that shows it."""
    test: str = ""
    """The test that shows it; "" if a `test_quirks.py` has a model of the row."""

    @property
    def right_from(self) -> str:
        """Return the first measured version without it; "" if the newest shows it."""
        newest = MEASURED[-1]
        return "" if newest in self.versions else newest

    @property
    def levels(self) -> tuple[OptimizationLevel, ...]:
        """Return the levels of optimization that show it."""
        levels = tuple(OPTIMIZATION_LEVELS)
        first = levels.index(self.level)
        last = levels.index(self.last_level)
        return levels[first : last + 1]


# The graphs that run in place of a model's own.

REWRITTEN_GRAPHS = Quirk(
    "rewritten graphs",
    "It runs graphs with other nodes than the file has, and an index that is in range "
    "in the file may be out of range there.",
    "basic",
    "Each of these graphs is audited as a model of its own.",
    ("auditing.levels",),
    test="auditing/proof/test_rewritten_models.py::"
    "test_each_level_does_what_the_row_says",
)
GATHER_OF_RANGE = Quirk(
    "Gather of a Range",
    "Of a Gather whose indices are a Range it makes a Slice, whose ends below 0 count "
    "from the end, and which does not fail.",
    "extended",
    "A certificate allows no end of a Range below 0, and an audit no number below 0.",
    (
        "proving.operators._range_of",
        "auditing.operators.index_operators.coordinates_of",
    ),
)
EMBEDDING_FROM_START = Quirk(
    "embedding from the start",
    "Of Gathers whose rows are added and normalized it makes an "
    "EmbedLayerNormalization, which counts no index from the end.",
    "extended",
    "The new indices of a hardened Gather are at least 0.",
    (
        "auditing.hardening.harden._counts_from_start",
        "auditing.hardening.harden.rewrite",
    ),
    test="auditing/proof/test_embeddings.py::"
    "test_onnx_runtime_counts_no_row_of_an_embedding_from_the_end",
)
EARLY_NORMALIZATION = Quirk(
    "early LayerNormalization",
    "It has LayerNormalization in opsets before 17, and writes it into its graphs.",
    "disabled",
    "Before opset 17 the sizes come from a rule of its own.",
    ("auditing.operators.output_types_of_runtime",),
)
REPEATED_CONSTANTS = Quirk(
    "repeated constants",
    "It writes the constants of a body twice.",
    "disabled",
    "The second constant is dropped.",
    ("auditing.levels._drop_repeated",),
    versions=("1.24.4",),
)
FOLDED_FAILURE = Quirk(
    "folded failure",
    "It refuses a model with a node of constants that fails, which it folds.",
    "basic",
    "A model that is refused at each level is opened without optimization, too.",
    ("auditing.levels.audit_levels",),
    versions=("1.24.4",),
)
SHAPE_OF_FAILING = Quirk(
    "Shape of what may fail",
    "Where it infers the sizes of a value, it makes a constant of the value's Shape, "
    "and drops the nodes whose values nothing else uses.",
    "basic",
    "A node that may fail counts as failing only if its value reaches an output of "
    "the model by elements. It counts as not failing only if it never fails.",
    ("proving.quirks.reaching",),
)
RESHAPE_OF_FAILING = Quirk(
    "Reshape to what may fail",
    "If a Concat joins the sizes of a Reshape, it makes -1 of one size that is no "
    "constant, and drops the nodes that compute the size.",
    "basic",
    "A value does not reach an output by elements where it names sizes.",
    ("proving.quirks.reaching",),
)
DECLARED_SIZES = Quirk(
    "declared sizes",
    "It believes the sizes that a model declares for a value.",
    "basic",
    "A certificate asks for the sizes that the model declares. A model of a contract "
    "hides the rank of an input.",
    (
        "proving.quirks.ensure_declared",
        "auditing.proof.contract_model._Guard._ranked",
    ),
)
SIZES_OF_ONE_NAME = Quirk(
    "sizes of one name",
    "It believes that two sizes are equal if the model declares one name for both.",
    "basic",
    "Two sizes of one name must be equal.",
    ("proving.quirks.ensure_declared",),
    versions=("1.32.0",),
)
QUOTIENT_OF_ONE = Quirk(
    "Div of 1",
    "Of `1 / x * y` it makes `y / x`, of integers too.",
    "basic",
    "The first input of a Div must not be 1.",
    ("proving.operators._quotient",),
)

# Casts and floats.

CASTS_IN_A_ROW = Quirk(
    "Casts in a row",
    "It leaves out the first of two Casts, so that the second gets what the first "
    "would have wrapped.",
    "disabled",
    "Integers that a Cast may have wrapped have the bounds of the next type.",
    (
        "auditing.algebra.bounds.Bounds",
        "auditing.operators.output_bounds_table",
        "auditing.operators.output_bounds_arithmetic._cast",
    ),
)
CAST_OF_FRACTION = Quirk(
    "Cast of a fraction",
    "It leaves out the Cast of a float to integers before one to BOOL, and a fraction "
    "is true.",
    "disabled",
    "A float that is not 0 may be 1 as an integer.",
    ("auditing.operators.output_bounds_arithmetic._cast_to_integers",),
    versions=("1.24.4",),
)
CAST_OF_SIZES = Quirk(
    "Cast of sizes",
    "Where it infers sizes that a Shape gives and a Cast changes, it infers the sizes "
    "before the Cast. The run fails, as the sizes are others.",
    "disabled",
    "A Cast must keep each number that is known.",
    ("proving.operators._cast",),
    last_level="disabled",
)
ROUNDED_TWICE = Quirk(
    "rounded twice",
    "It casts a DOUBLE to FLOAT16 by way of FLOAT.",
    "disabled",
    "Bounds that are no numbers of the type are rounded outwards.",
    ("auditing.algebra.bounds._rounded",),
)
HALVES_AS_FLOATS = Quirk(
    "halves as floats",
    "It keeps FLOAT16 as FLOAT from an operator to the next.",
    "disabled",
    "Bounds of FLOAT16 are wider by some roundings.",
    (
        "auditing.operators.output_bounds_arithmetic._loosened",
        "auditing.operators.output_bounds_arithmetic._monotonic",
    ),
)
SIGN_OF_NAN = Quirk(
    "Sign of NaN",
    "The Sign of a NaN of FLOAT16 is 0.",
    "disabled",
    "The Sign of what may be NaN is from -1 to 1.",
    ("auditing.operators.output_bounds_arithmetic._monotonic",),
)
WHERE_OF_FLOATS = Quirk(
    "Where of floats",
    "It changes -0.0 and NaNs.",
    "disabled",
    "Floats of InputTensor must not pass a Where.",
    ("proving.operators._where",),
)
RESIZE_IN_FLOAT = Quirk(
    "Resize in FLOAT",
    "It multiplies sizes with factors as FLOAT.",
    "disabled",
    "A size is known only if FLOAT holds the exact product.",
    ("auditing.operators.output_types._multiplied",),
)

# Integers.

SUM_IN_FLOATS = Quirk(
    "ReduceSum of integers",
    "It adds integers as floats of as many bits.",
    "disabled",
    "The magnitudes must have a sum that these floats hold exactly.",
    ("proving.operators._reduce_sum", "auditing.operators.output_bounds_table"),
    versions=("1.32.0",),
)
FMOD_AS_DOUBLE = Quirk(
    "fmod of integers",
    "It computes Mod with fmod of integers as DOUBLE.",
    "disabled",
    "Both numbers must be integers that DOUBLE holds exactly.",
    ("auditing.operators.output_bounds_arithmetic._remainder",),
    versions=("1.24.4",),
)
RANGE_IN_TYPE = Quirk(
    "Range in its type",
    "It counts the numbers of a Range in their data type, which may overflow.",
    "disabled",
    "A Range is known only if its span is below half of the type.",
    (
        "auditing.operators.output_bounds_axes._range",
        "auditing.operators.output_types._range",
    ),
    versions=("1.24.4",),
)
DIVISION_THAT_STOPS = Quirk(
    "division that stops the process",
    "A division of the lowest number by -1 stops the process, and a division by 0 "
    "may, even if nothing uses the element.",
    "disabled",
    "Divisors must be constants, none of them 0 or -1.",
    ("proving.operators._division",),
)
LOW_HALVES_AS_SIGNED = Quirk(
    "low halves",
    "Min, Max and Clip of INT64 compare low halves as signed integers where the high "
    "ones are equal.",
    "disabled",
    "A certificate names the version from which ONNX Runtime is right. With "
    "`low_halves=True` certificates use these comparisons. Bounds hold both.",
    (
        "proving.operators._ordered",
        "proving.operators._limited",
        "auditing.algebra.bounds",
        "auditing.operators.output_bounds_order",
    ),
    versions=("1.24.4", "1.31.1"),
)

# Sizes, and what has none.

SLICE_BACKWARDS = Quirk(
    "Slice backwards",
    "Backwards it takes the largest number of a type for the end that the step leads "
    "to.",
    "disabled",
    "A certificate asks for an end before 2^31 - 1, and an audit reads such an end so.",
    (
        "proving.operators._is_usual_slice",
        "auditing.operators.output_bounds_selection._positions_of_slice",
        "auditing.operators.output_types._slice_length",
    ),
)
LONG_PADS = Quirk(
    "long pads",
    "It reads foreign memory where a Pad reflects more elements than an axis has "
    "beside its end, or wraps more elements in front of an axis than it has.",
    "disabled",
    "The elements of such a Pad have bounds only if its pads are surely short enough.",
    ("auditing.operators.output_bounds_selection._is_padded_inside",),
    versions=("1.24.4",),
    test="auditing/operators/test_output_bounds.py::"
    "test_long_pads_read_foreign_memory_before_onnx_runtime_1_32",
)
SQUEEZE_OF_NO_AXES = Quirk(
    "Squeeze of no axes",
    "It takes an empty list of axes for all axes of size 1.",
    "disabled",
    "A Squeeze must have axes, or no input for them.",
    ("proving.operators._squeeze", "auditing.operators.output_types._names_axes"),
)
AXES_FROM_END = Quirk(
    "axes from the end",
    "It counts axes below 0 from the end before opset 11, too.",
    "disabled",
    "Such a Squeeze or Unsqueeze has no known sizes, as ONNX infers none.",
    ("auditing.operators.output_types._counts_axes",),
)
CONCAT_OF_NOTHING = Quirk(
    "Concat of nothing",
    "It accepts any sizes off the axis of an input without elements, and writes "
    "nothing in its place.",
    "disabled",
    "The sizes are those of inputs with elements, and the elements have no bounds.",
    (
        "auditing.operators.output_types._concat",
        "auditing.operators.output_bounds_selection._is_filled",
    ),
)
PRODUCT_OF_NOTHING = Quirk(
    "product of nothing",
    "It does not broadcast matrices whose products are sums of 0 numbers.",
    "disabled",
    "Such a product has no known sizes.",
    (
        "auditing.operators.output_types._is_broadcast_product",
        "auditing.operators.output_types_of_runtime._product",
    ),
    versions=("1.24.4",),
)
REDUCTION_OF_NOTHING = Quirk(
    "reduction of nothing",
    "Of no elements it keeps an axis that is counted from the end, at its size.",
    "disabled",
    "Such a reduction has no known sizes.",
    ("auditing.operators.output_types._reduced",),
    versions=("1.24.4",),
)
NOOP_OF_NOTHING = Quirk(
    "noop of nothing",
    "It reduces a value without elements over all axes where noop_with_empty_axes says "
    "that none is reduced.",
    "disabled",
    "Such a reduction has bounds only if the value surely has elements.",
    ("auditing.operators.output_bounds_axes._reduced",),
    versions=("1.24.4",),
)
CONVOLUTION_OF_NOTHING = Quirk(
    "convolution of nothing",
    "It refuses a convolution that has no place for its window.",
    "disabled",
    "A size behind a convolution is at least 1.",
    ("auditing.operators.output_types._window_count",),
)

# Inputs and outputs of kernels.

SKIPPED_STATISTICS = Quirk(
    "skipped statistics",
    "SkipLayerNormalization computes no mean and no deviation.",
    "disabled",
    "These outputs have open types.",
    ("auditing.operators.output_types_of_runtime._skip_normalization",),
    versions=("1.24.4",),
)
FEATURES_OF_LEAVES = Quirk(
    "features of leaves",
    "It refuses a tree whose leaf has a feature that the input has not, though a leaf "
    "reads none.",
    "disabled",
    "With such a leaf a tree is neither proved nor out of range.",
    ("auditing.operators.tree_features.leaves_have_features",),
    versions=("1.24.4",),
)
SCALARS_OF_ANY_SHAPE = Quirk(
    "scalars of any shape",
    "It accepts any shape for an input that has no dimension.",
    "disabled",
    "A contract names these inputs, and its check reads their shape.",
    (
        "auditing.proof.contract.Contract",
        "auditing.proof.contract_model._Guard._ranked",
    ),
)
BYTES_IN_OWN_ORDER = Quirk(
    "bytes in the machine's order",
    "Its Python package reads the bytes of numbers in the order of the machine, "
    "whatever the type of the array says.",
    "disabled",
    "A check of inputs reads the bytes so, too.",
    (
        "auditing.proof.contract._array",
        "auditing.proof.contract_python",
    ),
    test="auditing/proof/test_contract.py::"
    "test_a_number_is_what_onnx_runtime_reads_of_its_bytes",
)
WHERE_OF_TRUTHS = Quirk(
    "Where of truths",
    "It has no Where of BOOL.",
    "disabled",
    "A model of a contract chooses truths by And, Not and Or.",
    ("auditing.proof.contract_model.GuardNodes.either",),
)
INDEX_OUT_OF_RANGE = Quirk(
    "index out of range",
    "At an index out of range some kernels read or write outside of their memory, end "
    "the process, or go on.",
    "disabled",
    "A table says what each operator does, and an audit repeats it.",
    ("auditing.operators.index_operators",),
    test="auditing/operators/test_index_outcomes.py::"
    "test_the_cpu_provider_does_what_is_said",
)
