"""The command `certify`, which proves that models mean their descriptors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from onnxgather.certificates.solvers import installed_solver
from onnxgather.cli import arguments, sources
from onnxgather.cli.outputs import Outputs
from onnxgather.cli.processes import finished
from onnxgather.cli.sources import Batch, FileGathers, Reading, gathers_in
from onnxgather.cli.terminal import json_bytes, say
from onnxgather.descriptors.operators import Descriptor
from onnxgather.errors import FINDINGS, GOOD, located
from onnxgather.options import DEFAULT_OPSET, OutOfRange, Target
from onnxgather.parity.cases import DescriptorCase

if TYPE_CHECKING:
    from onnxgather.certificates.certify import Certified

CERTIFIED = "proved", "refuted", "undecided"


@dataclass(frozen=True, slots=True)
class CertifyOptions:
    """The arguments and options of `onnxgather certify`."""

    paths: tuple[str, ...]
    corpus: bool
    count: int | None
    """How many random descriptors."""
    seed: int
    shard: tuple[int, int] | None
    """The number of the part of what is certified, from 1, and how many parts there
    are."""
    out_of_range: Sequence[OutOfRange]
    target: Sequence[Target]
    model: str | None
    """The model in the place of those of the targets."""
    check: str | None
    """The certificate that is checked, instead."""
    timeout: float
    fail_on: str | None
    jobs: int
    reading: Reading
    outputs: Outputs

    @property
    def pairs(self) -> list[tuple[OutOfRange, Target]]:
        """The policies, each with every target."""
        return [*dict.fromkeys(itertools.product(self.out_of_range, self.target))]


@dataclass(frozen=True, slots=True)
class Pairing:
    """A descriptor, and the model that is to mean it."""

    name: str
    """Where the descriptor is from."""
    descriptor: Descriptor
    out_of_range: OutOfRange
    target: Target
    model: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.out_of_range}, {self.model or self.target}"

    def certified(self, timeout: float) -> Certified:
        """What its certificate says."""
        from onnxgather.certificates.certify import certify

        with located(self.name):
            return certify(
                self.descriptor,
                self.out_of_range,
                self.target,
                self.model,
                timeout=timeout,
            )


@click.command("certify", cls=sources.JsonCommand)
@click.argument("paths", nargs=-1, type=arguments.FILE, metavar="[FILE]...")
@arguments.flag("--corpus", help="Certify each descriptor of the built-in corpus.")
@arguments.number("--random", "count", help="Certify N random descriptors.")
@arguments.of_check("seed")
@arguments.shard
@arguments.policy(told="clamp", default=["clamp"], multiple=True)
@arguments.target(told="portable", default=["portable"], multiple=True)
@arguments.file("--model", help="Certify this ONNX model against the only descriptor.")
@arguments.file(
    "-o", "--certificate", "certificate_file", help="Write the only certificate."
)
@arguments.file(
    "--check", help="Check a certificate instead, with --model that it is about it."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60,
    show_default=True,
    metavar="S",
    help="Seconds that the solver may take for a descriptor.",
)
@arguments.fail_on("undecided", "Let an undecided descriptor be a finding too.")
@arguments.number(
    "--jobs", most=64, default=1, help="Processes that work side by side."
)
@arguments.json_file("certificates")
@arguments.as_html
@arguments.allow_outside
@arguments.as_records(reading=Reading, outputs=Outputs)
def certify_command(**given: Any) -> int:
    """Prove that models mean their descriptors, for any data and every value of every index.

    A FILE is a program; or a folder: all *.json files in it and below it; or a pattern
    in quotes. A descriptor is proved, refuted, which is a finding, or undecided.
    --out-of-range and --target may come several times. It needs a solver: pip install
    z3-solver.
    """
    options = CertifyOptions(**given)
    batch = Batch(prints=False)
    installed_solver()
    if options.check:
        return _check(options, options.check)
    read = list[FileGathers]()
    asked = [*_asked(options, batch, read)]
    options.outputs.check_writable()
    work = partial(Pairing.certified, timeout=options.timeout)
    done = finished(batch, options.jobs, work, asked, "descriptor")
    contents = {
        "--json": partial(_json, batch, done),
        "--html": partial(_page, options, read, done),
        "--certificate": lambda: json_bytes(*done.values()),
    }
    if done and not options.outputs.write(batch, contents):
        for one, certified in done.items():
            say(f"{one}: {certified}")
        say(_count(done))
    states = {certified.state for certified in done.values()}
    return batch.finish([FINDINGS] if states & {"refuted", options.fail_on} else [])


def _count(done: Mapping[Pairing, Certified]) -> str:
    """How many descriptors are in each state, such as `1 proved, 0 refuted, 0 undecided`."""
    states = [certified.state for certified in done.values()]
    return ", ".join(f"{states.count(state):,} {state}" for state in CERTIFIED)


def _asked(
    options: CertifyOptions, batch: Batch, read: list[FileGathers]
) -> Iterator[Pairing]:
    """Yield what is to be certified, each once; what files have is put into `read`."""
    from onnxgather.parity.corpus import built_in_cases, random_cases

    found = dict[Descriptor, str]()
    for source in batch.sources(options.paths):
        with batch.step(source.path):
            gathers = gathers_in(batch, source, options.reading)
            read.append(gathers)
            for name, desc in gathers.descriptors.items():
                found.setdefault(desc, f"{source.path}: {gathers.where(name)}")
    files = itertools.chain.from_iterable(gathers.files for gathers in read)
    options.outputs.check_apart([*files, *filter(None, [options.model])])
    if options.outputs.html_file and not options.paths:
        raise click.UsageError("--html must come with a FILE")
    cases = itertools.chain(
        built_in_cases() if options.corpus else (),
        random_cases(options.count or 0, options.seed),
    )
    for case in cases:
        if isinstance(case, DescriptorCase):
            found.setdefault(case.descriptor, case.name)
    if not found and not batch.failures:
        raise click.UsageError(
            "there is nothing to certify: give a FILE, --corpus or --random N"
        )
    alone = {
        "--model": options.model,
        "--certificate": options.outputs.certificate_file,
    }
    for option, given in alone.items():
        if given and len(found) * len(options.pairs) > 1:
            rule = (
                f"{option} must come with one descriptor and one pair of rule and"
                " target"
            )
            raise click.UsageError(
                f"{rule}, got {len(found):,} and {len(options.pairs)}"
            )
    part, parts = options.shard or (1, 1)
    own = itertools.islice(found.items(), part - 1, None, parts)
    for (desc, name), pair in itertools.product(own, options.pairs):
        yield Pairing(name, desc, *pair, options.model)


def _json(batch: Batch, done: dict[Pairing, Certified]) -> bytes:
    """The certificates as JSON, of the obligations their number."""
    each = [
        {
            "name": one.name,
            "model": one.model,
            **asdict(certified),
            "obligations": len(certified.obligations),
        }
        for one, certified in done.items()
    ]
    unusable = [str(error) for _, error in batch.failures]
    return json_bytes({"schema": 1, "certificates": each, "unusable": unusable})


def _page(
    options: CertifyOptions,
    read: Sequence[FileGathers],
    done: Mapping[Pairing, Certified],
) -> bytes:
    """The page of `show` for the files, with what each certificate says, and how many do."""
    from onnxgather.cli.translate import page_of
    from onnxgather.lowering.show import describe

    said = {
        (
            one.descriptor,
            one.out_of_range,
            one.target,
        ): (
            f"{one.model or one.target}: {certified}. "
            f"It is about this: {certified.statement}."
        )
        for one, certified in done.items()
    }
    found = [
        (
            of,
            {
                name: describe(desc, *pair, DEFAULT_OPSET)
                for name, desc in of.descriptors.items()
            },
        )
        for of in read
        for pair in options.pairs
    ]
    return page_of(found, said, _count(done))


def _check(options: CertifyOptions, path: str) -> int:
    """Check a certificate."""
    from onnxgather.certificates.files import check_certificate, read_certificate

    if options.paths or options.corpus or options.count or options.outputs.by_option:
        raise click.UsageError("--check must come with --model and --timeout alone")
    certificate = read_certificate(path)
    found = [*check_certificate(certificate, options.model, options.timeout)]
    untied = "" if options.model else ", but of no model: add --model MODEL"
    for text in found or [f"again {certificate}{untied}"]:
        say(f"{path}: {text}")
    return FINDINGS if found else GOOD
