"""An audit as lines: what is wrong first, then what may be, then what is proved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from shlex import quote
from typing import Any

import numpy as np
from msgspec import Struct

from onnxgather.auditing.algebra.sizes import terms_in
from onnxgather.auditing.graph_audit import out_of_range
from onnxgather.auditing.operators.index_operators import INDEX_OPERATORS
from onnxgather.auditing.output.verdict import badness_of, not_judged_text, verdict_text
from onnxgather.auditing.proof.contract import Condition, NamedSizes
from onnxgather.auditing.proof.index_range import (
    NO_INPUT,
    GivenEnd,
    IndexRange,
    Lost,
    RangeState,
)
from onnxgather.auditing.records import (
    Audit,
    AuditedGather,
    GraphGather,
    counted,
)
from onnxgather.core.checks import number_of, printable
from onnxgather.core.descriptors.explain import explain
from onnxgather.core.descriptors.operators import GatherDesc
from onnxgather.core.descriptors.spelling import from_dict
from onnxgather.core.gather import gather_of

MOST_PATHS = 4
"""The most paths of models that a command to run next repeats."""


class NamedPaths(Struct, frozen=True):
    """The paths of the command that was given, which the next commands name again."""

    models: Sequence[str] = ()
    """The folders, patterns and files of a list of models; empty for one model."""
    contract: str | None = None
    """The contract that the command writes, or the folder of contracts; None if it
    writes none that --assume reads."""
    assume: Sequence[str] = ()
    """The contracts, and their folders, that the command took as given."""


LABELS = {
    "out-of-range": "OUT OF RANGE",
    "not-proved": "not proved",
    "proved-if": "proved if",
}
"""The first word of the line on a gather, by its state."""

FILE_ALONE = "the file was audited by ONNX's specification alone"
"""What is said of a model of which ONNX Runtime made no graph; the reason follows."""

SHAPES = "shapes are computed on the CPU"
"""The cause of a proved gather that computes shapes."""


def lines(name: str, audit: Audit, every: bool = False) -> Iterator[str]:
    """Yield the lines of a model.

    Args:
        name: What was audited.
        audit: The audit.
        every: Whether each gather has its line, even if it is proved or computes
            shapes.
    """
    say = partial(said, sizes=audit.contract["sizes"])
    yield f"{name}: {first_line(audit)}"
    for text in _alike(audit.invalid, say, every):
        yield f"INVALID       {text}"
    for gather in audit.out_of_range:
        yield f"OUT OF RANGE  {named(gather)}: {say(gather)}"
        behaviour = read_by_directml(gather)
        if behaviour:
            yield f"    directml  {behaviour}"
    yield from _graph_lines(audit, "out-of-range")
    for text in _alike(audit.refused, lambda gather: gather.refused or "", every):
        yield f"REFUSED       {text}"
    yield from _not_proved_lines(audit.not_proved, say, every)
    yield from _graph_lines(audit, "not-proved")
    for text in _alike(audit.proved_if, say, every):
        yield f"proved if     {text}"
    yield from _graph_lines(audit, "proved-if")
    if every:
        proved = [gather for gather in audit.gathers if _is_proved(gather)]
        for text in _alike(proved, say, every):
            yield f"proved        {text}"
    else:
        yield from _proved_lines(audit)
    run = run_text(audit)
    if run:
        yield f"run           {run}"
    yield from _met_lines(audit)
    yield from runtime_lines(audit)
    yield from assumption_lines(audit)
    given = given_text(audit)
    if given:
        yield f"given         {given}"
    for note in audit.notes:
        yield f"note          {note}"


def _not_proved_lines(
    gathers: Iterable[AuditedGather], say: Callable[[AuditedGather], str], every: bool
) -> Iterator[str]:
    """Yield a line for each cause, and under it the gathers that are not proved."""
    gathers_by_cause = dict[str, list[AuditedGather]]()
    for gather in gathers:
        cause = cause_of(gather, {})
        gathers_by_cause.setdefault(cause, []).append(gather)
    for cause, members in gathers_by_cause.items():
        # What lost a size is said in a clause of its own.
        is_lost = members[0].range.lost is not None
        mark = "; " if is_lost else ", "
        yield f"not proved    {counted(members)}{mark}{cause}:"
        for text in _alike(members, say, every):
            yield f"    {text}"


def _proved_lines(audit: Audit) -> Iterator[str]:
    """Yield the lines on the proved gathers, and one on those that compute shapes."""
    shapes = list[AuditedGather]()
    proved = list[AuditedGather]()
    for gather in audit.gathers:
        if gather.shape_computation:
            shapes.append(gather)
        elif _is_proved(gather):
            proved.append(gather)
    # The indices of gathers with one proof differ, so these lines leave them out.
    for text in _alike(proved, lambda gather: gather.range.why, every=False):
        yield f"proved        {text}"
    if shapes:
        yield f"shapes        on the CPU, {summary(Audit(shapes))}"


def run_text(audit: Audit) -> str:
    """Return what a run of the model showed; "" if the run reached no gather."""
    reached = sum(map(_is_reached, audit.gathers))
    if not reached:
        return ""
    of = ""
    if reached < len(audit.gathers):
        of = f"{reached:,} of "
    # Only these are counted whose index is known; bounds alone may prove it, too.
    wrong = sum(gather.range.found is not None for gather in audit.out_of_range)
    result = "each index was in range"
    if wrong:
        result = f"{wrong:,} had an index out of range"
    return f"the run reached {of}{counted(audit.gathers)}: {result}"


def _is_reached(gather: AuditedGather) -> bool:
    """Return whether a run reached a gather, by its indices or by its counts."""
    met = gather.range.met
    return gather.range.seen is not None or (met is not None and met.runs > 0)


def _met_lines(audit: Audit) -> Iterator[str]:
    """Yield what gathers met beside the first index that is out of range."""
    for gather in audit.gathers:
        text = met_text(gather.range)
        if text:
            yield f"    {named(gather)}: {text}"


def met_text(index_range: IndexRange) -> str:
    """Return what a gather met in a run of the whole model.

    The text is empty if it met no index out of range but the one that is told of it.
    """
    met = index_range.met
    if met is None or not met.outside:
        return ""
    ends = f"from {met.least} to {met.largest}"
    outside = f"{met.outside:,} indices"
    if met.outside == 1:
        # Case: the sentence on the gather has the index.
        if index_range.found is not None:
            return ""
        ends = f"{met.least}"
        outside = "1 index"
    runs = number_of(met.runs, "run")
    return f"met {outside} out of range of {met.indices:,}, in {runs}: {ends}"


def runtime_lines(audit: Audit) -> Iterator[str]:
    """Yield what else was audited than the file."""
    if not audit.gathers:
        return
    if audit.runtime is None:
        yield f"runtime       {FILE_ALONE}: {audit.runtime_reason}"
    for graph in audit.graphs:
        # A note says why a graph was not audited.
        if graph.refused is None:
            levels = ", ".join(graph.levels)
            name = f"ONNX Runtime {graph.version}"
            yield f"runtime       also audited: what {name} runs at level {levels}"


def _graph_lines(audit: Audit, state: RangeState) -> Iterator[str]:
    """Yield a line for each gather that only a graph of ONNX Runtime leaves open.

    Args:
        audit: The audit.
        state: The state of the gathers.
    """
    for gather in audit.graph_gathers:
        if gather.state == state:
            yield f"{LABELS[state]:<13} {named(gather)}: {gather.why}"


def assumption_lines(audit: Audit) -> Iterator[str]:
    """Yield what the proofs assume; nothing without a gather or an open size."""
    if audit.gathers and audit.contract["sizes"]:
        yield f"assumes       {audit.assumes}"
    shapes = audit.contract.get("shapes", {})
    scalars = [name for name, shape in shapes.items() if not shape]
    if audit.gathers and scalars:
        names = ", ".join(map(printable, scalars))
        rule = "an input that has no dimension gets none"
        yield f"assumes       {rule}, which ONNX Runtime does not check: {names}"
    if audit.contract.get("no_negative"):
        yield "assumes       an index below 0 is out of range, but for constants"
        return
    counts_from_end = any(
        INDEX_OPERATORS[gather.domain, gather.op].counts_from_end
        for gather in audit.gathers
    )
    conditions = audit.contract.get("conditions", ())
    if counts_from_end and any(map(_allows_negative, conditions)):
        yield "assumes       an index below 0 counts from the end"


def given_text(audit: Audit) -> str:
    """Return what options say of the inputs, and that the contract says it too.

    The text is empty if they say nothing.
    """
    if not audit.given or not audit.gathers:
        return ""
    return f"{' and '.join(audit.given)}; the contract is for such inputs alone"


def _allows_negative(condition: Mapping[str, Any]) -> bool:
    """Return whether values below 0 meet a condition, as plain JSON."""
    low = condition["low"]
    is_below = low is not None and low < 0
    is_of_size = (condition["low_expression"] or "").startswith("-")
    return condition["of"] == "values" and (is_below or is_of_size)


def provider_lines(gathers: Iterable[AuditedGather]) -> Iterator[str]:
    """Yield the lines on what each provider does with an index out of range."""
    for operators, behaviours in providers_of(gathers).items():
        yield f"providers     what an index out of range of {operators} does:"
        for provider, behaviour in behaviours.items():
            yield f"    {provider:<9} {behaviour}"


def next_lines(audits: Mapping[str, Audit], named: NamedPaths) -> Iterator[str]:
    """Yield the lines that say what may be done next, as of `next_commands`."""
    for purpose, commands in next_commands(audits, named).items():
        yield f"next          {purpose}"
        for command in commands:
            yield f"    {command}"


def cause_of(gather: AuditedGather, sizes: NamedSizes) -> str:
    """Return what stops the proof of a gather, or what proves it.

    Gathers of one state are grouped by this text.

    Args:
        gather: The gather.
        sizes: The places of the open sizes.
    """
    index_range = gather.range
    if index_range.state == "not-proved":
        if index_range.excluded:
            return f"because {NO_INPUT}"
        if index_range.lost is not None:
            return _of_lost_size(index_range, index_range.lost)
        # An index has nothing to be compared with if a size is unknown.
        if index_range.low is not None and None in (index_range.size or (None,)):
            return "because of axes of unknown size"
        if index_range.input is None and index_range.unfit:
            return f"because {index_range.unfit[0]}"
        return f"because of {index_range.input}"
    if index_range.state == "out-of-range":
        if index_range.given is not None:
            return "what is given of an input leads to it"
        wrong_index = index_range.found
        if wrong_index is None:
            return "each run has such an index"
        if wrong_index.source == "constant":
            return "the model has such an index"
        return "the given inputs lead to it"
    if index_range.state == "proved":
        if gather.shape_computation:
            return SHAPES
        return "in range"
    return said(gather, sizes)


def cause_of_all(gathers: Sequence[AuditedGather]) -> str:
    """Return what stops the proof of gathers, of which one cause is like the others.

    Of sizes that several nodes lose, the first node is named.
    """
    index_range = gathers[0].range
    lost = index_range.lost
    if lost is None:
        return cause_of(gathers[0], {})
    nodes = {gather.range.lost for gather in gathers}
    return _of_lost_size(index_range, lost, len(nodes) - 1)


def _of_lost_size(index_range: IndexRange, lost: Lost, others: int = 0) -> str:
    """Return which node lost the size of an axis, and what tells it.

    Args:
        index_range: The range of the indices.
        lost: The node.
        others: How many other nodes lost sizes that the same options tell.
    """
    text = f"the size is unknown behind {lost.node} ({lost.op})"
    if others:
        text = f"{text} and {number_of(others, 'more node')}"
    if lost.told_by is not None:
        return f"{text}; `{lost.told_by}` tells it"
    # A run reaches a gather in a branch or a loop only with some inputs.
    if index_range.sizes_from != "run":
        return f"{text}; `--inputs FILE.npz` may tell it"
    return text


def _is_proved(gather: AuditedGather) -> bool:
    """Return whether a gather is proved without conditions."""
    return gather.range.state == "proved"


def _alike(
    gathers: Sequence[AuditedGather], say: Callable[[AuditedGather], str], every: bool
) -> Iterator[str]:
    """Yield the sentences on gathers.

    Args:
        gathers: The gathers.
        say: Returns the sentence on a gather.
        every: Whether each gather has its own sentence. Otherwise gathers of one
            operator share a sentence if it is the same.
    """
    groups = dict[tuple[str, str], list[AuditedGather]]()
    for number, gather in enumerate(gathers):
        group = gather.op
        if every:
            group = str(number)
        groups.setdefault((say(gather), group), []).append(gather)
    for (sentence, _), members in groups.items():
        yield f"{named_with_others(members)}: {sentence}{seen_text(members)}"


def named_with_others(gathers: Sequence[AuditedGather | GraphGather]) -> str:
    """Return the name of the first of some gathers, and how many others there are."""
    others = len(gathers) - 1
    return f"{named(gathers[0])} and {others:,} more" if others else named(gathers[0])


def seen_text(gathers: Iterable[AuditedGather]) -> str:
    """Return the least and the greatest index that a run had, such as `; seen 3..998`.

    The text is empty if the run reached none of the gathers.
    """
    lows = list[int]()
    highs = list[int]()
    for gather in gathers:
        # The bounds of constant indices are exact already.
        if gather.range.seen and not gather.constant_indices:
            low, high = gather.range.seen
            lows.append(low)
            highs.append(high)
    if not lows:
        return ""
    return f"; seen {_ends(min(lows), max(highs))}"


def said(gather: AuditedGather, sizes: NamedSizes) -> str:
    """Return the sentence on a gather.

    It says what is wrong with an index, or the bounds, the conditions or the proof; and
    where ONNX Runtime runs no such node, if nothing proves the gather.

    Args:
        gather: The gather.
        sizes: The places of the open sizes.
    """
    sentence = _of_indices(gather, sizes)
    is_proved = gather.range.state in ("proved", "proved-if")
    if gather.rewritten_at and not is_proved:
        levels = ", ".join(gather.rewritten_at)
        sentence = f"{sentence}; folded or rewritten at level {levels}"
    return sentence


def sentence_of(gather: AuditedGather, sizes: NamedSizes) -> str:
    """Return the sentence on a gather, and what stops its proof."""
    sentence = said(gather, sizes)
    # The bounds alone do not say what stops the proof.
    if gather.range.state == "not-proved":
        sentence = f"{sentence}; {cause_of(gather, {})}"
    return sentence


def _of_indices(gather: AuditedGather, sizes: NamedSizes) -> str:
    """Return what is wrong with an index, or the bounds, the conditions or the proof.

    Args:
        gather: The gather.
        sizes: The places of the open sizes.
    """
    index_range = gather.range
    if index_range.state == "invalid":
        return index_range.why
    if index_range.state == "proved-if":
        return _conditions(index_range, sizes)
    if index_range.state == "out-of-range":
        return _wrong_index(index_range)
    if index_range.state == "not-proved":
        if index_range.excluded:
            return f"in range if {' and '.join(map(str, index_range.excluded))}"
        text = _reached_text(index_range)
        return f"{text}; {index_range.limit}" if index_range.limit else text
    # A proof without bounds: there is no index, or the proof compares open sizes.
    for numbers in (index_range.low, index_range.high, index_range.size):
        if not numbers or None in numbers:
            return index_range.why
    return f"{indices_text(index_range)}, {index_range.why}"


def providers_of(gathers: Iterable[AuditedGather]) -> dict[str, dict[str, str]]:
    """Return what each provider does with an index out of range, by operators.

    A key names the operators with the same behaviour; only operators with a gather
    whose index may be out of range are there.
    """
    # The order is that of the gathers.
    operators = dict[tuple[str, str], None]()
    for gather in gathers:
        if gather.range.state not in ("proved", "invalid"):
            operators[gather.op, gather.domain] = None
    names_by_behaviour = dict[tuple[tuple[str, str], ...], list[str]]()
    for name, domain in operators:
        behaviour = tuple(out_of_range(name, domain).items())
        names_by_behaviour.setdefault(behaviour, []).append(name)
    return {
        ", ".join(names): dict(behaviour)
        for behaviour, names in names_by_behaviour.items()
    }


def read_by_directml(gather: AuditedGather) -> str:
    """Return what DirectML does with the index that is out of range.

    The text is empty if it is not known which element DirectML reads.
    """
    wrong_index = gather.range.found
    if wrong_index is None or gather.descriptor is None or gather.op == "GatherND":
        return ""
    desc = from_dict(gather.descriptor)
    # With static sizes, DirectML reads a size of 1 otherwise than with open ones.
    if 1 in gather_of(desc).axes:
        return ""
    data_tensor = desc.input_tensor
    index_tensor = desc.indices_tensor
    # Only the place of an element counts, so all values but the index are 0.
    data = np.zeros(data_tensor.array_shape, data_tensor.data_type.numpy)
    indices = np.zeros(index_tensor.array_shape, index_tensor.data_type.numpy)
    # The tensors of a descriptor may have more dimensions, which come first.
    indices[(..., *wrong_index.at)] = wrong_index.value

    # Of a gather along an axis, the dimensions of data behind the axis come last.
    behind = 0
    if isinstance(desc, GatherDesc):
        behind = data.ndim - desc.axis - 1
    coordinate_count = len(wrong_index.at)
    ahead = desc.output_tensor.dimension_count - coordinate_count - behind
    at = (*[0] * ahead, *wrong_index.at, *[0] * behind)
    coordinates = explain(desc, data, indices, at, "directml").after or ()
    rank = len(gather.data.sizes or ())
    element = ",".join(map(str, coordinates[-rank:]))
    return f"No error: returns another element of the tensor, here `input[{element}]`"


def _conditions(index_range: IndexRange, sizes: NamedSizes) -> str:
    """Return the conditions of a proof, and where the indices are without them.

    Args:
        index_range: The range.
        sizes: The places of the open sizes, which the text names for an expression.
    """
    text = " and ".join(map(str, index_range.conditions))
    places = _places(index_range.conditions, sizes)
    if places:
        text += f", where {', '.join(places)}"
    if not all(condition.exact for condition in index_range.conditions):
        text += "; other inputs may be in range too"
    # The indices say nothing of sizes, and without both bounds there is no interval.
    if index_range.unfit:
        return text
    for numbers in (index_range.low, index_range.high):
        if not numbers or None in numbers:
            return text
    return f"{text}; without this the indices are {indices_text(index_range)}"


def _places(conditions: Iterable[Condition], sizes: NamedSizes) -> list[str]:
    """Return where the open sizes in expressions are, a text for each size."""
    text_by_name = dict[str, str]()
    for condition in conditions:
        expressions = [condition.low_expression, condition.high_expression]
        if condition.of == "sizes":
            expressions.append(condition.expression)
        for _, product in terms_in(" + ".join(filter(None, expressions))):
            for factor in product.split("*"):
                # Other factors are numbers.
                if factor in sizes:
                    input_name, dim = sizes[factor][0]
                    text_by_name[factor] = f"{factor} is size {dim} of {input_name}"
    return list(text_by_name.values())


def next_commands(
    audits: Mapping[str, Audit], named: NamedPaths | None = None
) -> dict[str, list[str]]:
    """Return the commands of what may be done next, by their purpose.

    Args:
        audits: The audits by the paths of the models.
        named: The paths of the command that was given; None if it is not known.
    """
    named = named or NamedPaths()
    if named.models:
        return dict(_commands_of_list(audits, named))
    commands = dict[str, list[str]]()
    for model, audit in audits.items():
        commands.update(_commands(model, audit, named))
    return commands


def _commands_of_list(
    audits: Mapping[str, Audit], named: NamedPaths
) -> Iterator[tuple[str, list[str]]]:
    """Yield the purpose of what may be done next with a list of models."""
    conditional = [model for model, audit in audits.items() if _has_conditions(audit)]
    limited = [model for model, audit in audits.items() if _has_limited(audit)]
    models = dict.fromkeys([*conditional, *limited])
    if not models:
        return
    paths = " ".join(map(quote, named.models))
    # A shell that replaces a pattern names many models.
    if len(named.models) > MOST_PATHS:
        paths = "MODEL..."
    if conditional and not named.assume:
        yield from _contract_commands(f"onnxgather audit {paths}", "contracts", named)
    # A folder in that of the models would be hardened itself the next time.
    is_here = any(os.path.normpath(path) == os.curdir for path in named.models)
    folder = quote(os.path.join(os.pardir, "hardened") if is_here else "hardened")
    if limited:
        yield (
            "to make models in which each index stays in range, and to try them:",
            [f"onnxgather harden {paths} -o {folder} --verify"],
        )
    worst = min(models, key=lambda model: badness_of(audits[model]))
    yield (
        "to see what is open in a model, and what would tell more; the worst first:",
        [f"onnxgather audit {quote(worst)}"],
    )


def _has_limited(audit: Audit) -> bool:
    """Return whether `harden` limits indices of a model that may leave their axis."""
    for gather in audit.open:
        # Nodes that are invalid are left as they are, and sizes that may not fit.
        if gather.range.state == "invalid" or gather.range.unfit:
            continue
        operator = INDEX_OPERATORS[gather.domain, gather.op]
        if operator.hardened != "leave":
            return True
    return False


def _has_conditions(audit: Audit) -> bool:
    """Return whether gathers of a model are proved under conditions."""
    return bool(audit.proved_if) or any(gather.range.given for gather in audit.gathers)


def _contract_commands(
    again: str, default: str, named: NamedPaths
) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands that write a contract and take it as given.

    Args:
        again: The command of the audit.
        default: Where the contract is written, if this audit has not written it.
        named: The paths of the command that was given.
    """
    if named.contract is not None:
        contract = quote(named.contract)
        purpose = "to take the conditions that were written as given:"
        yield purpose, [f"{again} --assume {contract} --fail-on proved-if"]
        return
    contract = quote(default)
    noun = "files" if named.models else "a file"
    yield (
        f"to write the conditions to {noun}, and to take them as given:",
        [
            f"{again} --contract {contract}",
            f"{again} --assume {contract} --fail-on proved-if",
        ],
    )


def _commands(
    model: str, audit: Audit, named: NamedPaths
) -> Iterator[tuple[str, list[str]]]:
    """Yield the purpose of what may be done next with a model, and its commands."""
    again = f"onnxgather audit {quote(model)}"
    stem, _ = os.path.splitext(model)
    # An audit names the options that say more; each purpose has its own.
    shapes = _options(audit, "--shape ")
    inputs = _options(audit, "--inputs ")
    ranges = _options(audit, "--range ")
    if inputs:
        commands = [f"{again} {inputs}"]
        if shapes:
            commands.insert(0, f"{again} {shapes}")
        yield (
            "to know the sizes that are open, and whether DirectML takes the gathers:",
            commands,
        )
    if ranges:
        yield (
            "to prove more, with the least and the greatest number of an input for LO"
            " and HI:",
            [f"{again} {ranges}"],
        )
    if _has_conditions(audit) and not named.assume:
        yield from _contract_commands(again, f"{stem}.contract.json", named)
    if _has_limited(audit):
        hardened = quote(f"{stem}.hardened.onnx")
        yield (
            "to make a model in which each index stays in range, and to try it:",
            [f"onnxgather harden {quote(model)} -o {hardened} --verify"],
        )


def _options(audit: Audit, start: str) -> str:
    """Return the options of an audit that start with a text, as in a command."""
    return " ".join(option for option in audit.options if option.startswith(start))


def first_line(audit: Audit) -> str:
    """Return the verdict of a model, and how many gathers there are by state."""
    line = summary(audit)
    # Of a model without gathers these counts say the verdict.
    if audit.verdict != "no-index":
        line = f"{verdict_text(audit)}; {line}"
    return line + in_graphs_text([audit]) + not_judged_text([audit])


def in_graphs_text(audits: Iterable[Audit]) -> str:
    """Return how many gathers only graphs of ONNX Runtime leave open.

    The text is the end of a sentence; it is empty if there are none.
    """
    count = sum(len(audit.graph_gathers) for audit in audits)
    if not count:
        return ""
    return f"; {count:,} more not proved in ONNX Runtime's graphs"


def summary(audit: Audit) -> str:
    """Return how many gathers and other operators there are, and how many by state."""
    counts = [
        (len(audit.invalid), "invalid"),
        (len(audit.out_of_range), "out of range"),
        (len(audit.refused), "refused by DirectML"),
        (len(audit.not_proved), "not proved in range"),
        (len(audit.proved_if), "proved under conditions"),
        (sum(map(_is_proved, audit.gathers)), "proved in range"),
    ]
    states = ", ".join(f"{count:,} {state}" for count, state in counts if count)
    if not states:
        return "no gather, and no other operator with indices"
    return f"{counted(audit.gathers)}: {states}"


def indices_text(index_range: IndexRange) -> str:
    """Return the interval of the indices with the size of the axis: `0..15 of 512`.

    Of tuples of indices, there is an interval for each coordinate.
    """
    if index_range.low is None or index_range.high is None:
        return "no index"
    sizes = index_range.size
    if not sizes:
        sizes = (None,) * len(index_range.low)
    says_size = index_range.lost is None
    intervals = list[str]()
    for low, high, size in zip(index_range.low, index_range.high, sizes, strict=False):
        intervals.append(_interval(low, high, size, says_size))
    if len(intervals) == 1:
        return intervals[0]
    return f"({', '.join(intervals)})"


def _interval(
    low: int | None, high: int | None, size: int | None, says_size: bool
) -> str:
    """Return the interval of an index with the size of its axis.

    Args:
        low: The lowest index.
        high: The highest index.
        size: The size of the axis.
        says_size: Whether it is said that a size is unknown.
    """
    if low is not None and high is not None:
        index = _ends(low, high)
        if size is not None:
            return f"{index} of {size}"
    elif low is not None:
        index = f"{low} and up, no upper bound is known"
    elif high is not None:
        index = f"up to {high}"
    else:
        index = "unbounded"
    if size is not None:
        return f"index {index}; the axis has {number_of(size, 'element')}"
    if says_size:
        return f"index {index}; the size of the axis is unknown"
    return f"index {index}"


def _ends(low: int, high: int) -> str:
    """Return an interval; a single number if its ends are the same."""
    if low == high:
        return f"{low}"
    return f"{low}..{high}"


def named(gather: AuditedGather | GraphGather) -> str:
    """Return a gather with its operator and where it is."""
    return f"{gather.node} ({where(gather)})"


def where(gather: AuditedGather | GraphGather) -> str:
    """Return the operator of a gather and where it is."""
    place = gather.place
    if isinstance(gather, GraphGather):
        place = gather.where
    return f"{gather.op}, {place}"


def _given_end(index_range: IndexRange, given: GivenEnd) -> str:
    """Return which end of a given range leaves the axis, and what keeps it there."""
    size = None
    if index_range.size:
        size = index_range.size[given.coordinate]
    axis = "the axis has an open size"
    if size is not None:
        axis = f"the axis has {number_of(size, 'element')}"
    # Case: the index would be in range if it counted from the end.
    is_below_0 = given.index is not None and given.index < 0
    if is_below_0 and (size is None or (given.index or 0) >= -size):
        axis = "an index below 0 is out of range"
    if given.source == "tokenizer":
        end = f"the tokenizer of {given.input} has ids to {given.value}"
    elif given.source == "metadata":
        end = f"the range that the model declares of {given.input} contains"
        end = f"{end} {given.value}"
    else:
        end = f"the range given of {given.input} contains {given.value}"
    if given.index is not None and given.index != given.value:
        end = f"{end}, which leads to the index {given.index}"
    text = f"can leave its axis: {end}, and {axis}"
    if index_range.conditions:
        conditions = " and ".join(map(str, index_range.conditions))
        text = f"{text}; in range if {conditions}"
    return text


def _reached_text(index_range: IndexRange) -> str:
    """Return the interval of the indices, and which index out of range runs reach."""
    text = indices_text(index_range)
    reached = index_range.reached
    if reached is None:
        return text
    index = "an index out of range"
    if reached.index is not None:
        more = "less" if reached.index < 0 else "more"
        index = f"an index of {reached.index} or {more}"
    if reached.by == "each run":
        return f"{text}; each run that reaches it has {index}"
    return f"{text}; some inputs lead to {index}"


def _wrong_index(index_range: IndexRange) -> str:
    """Return the index that is out of range; the bounds if no single index is known."""
    if index_range.given is not None:
        return _given_end(index_range, index_range.given)
    wrong_index = index_range.found
    if wrong_index is None or index_range.size is None:
        return _reached_text(index_range)
    source = "by the given inputs"
    if wrong_index.source == "constant":
        source = "a constant"
    elif index_range.met is not None and index_range.met.under_clamp:
        source = "by the given inputs under clamp"
    size = index_range.size[wrong_index.coordinate]
    if size is None:
        rule = "out of the range of its axis"
    elif wrong_index.low < 0:
        rule = f"on an axis of {size}"
    # Of some inputs, such as a length, a negative number does not count from the end.
    else:
        rule = f"not from {wrong_index.low} to {size - 1}"
    more = ""
    if wrong_index.count > 1:
        more = f"; {wrong_index.count:,} indices are out of range"
    at = ",".join(map(str, wrong_index.at))
    element = f"{wrong_index.name}[{at}]"
    return f"{element} is {wrong_index.value}, {source}, {rule}{more}"
