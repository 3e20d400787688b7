"""The command `certify`, which proves that models mean their descriptors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from onnxgather.cli import arguments, sources
from onnxgather.cli.outputs import Outputs
from onnxgather.cli.processes import finished
from onnxgather.cli.sources import Batch, Reading, gathers_in
from onnxgather.cli.terminal import json_bytes, say
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import FINDINGS, located
from onnxgather.core.options import POLICIES, OutOfRange, ProvedTarget

if TYPE_CHECKING:
    from onnxgather.proving.certify import Certified

CERTIFICATE_STATES = ("proved", "refuted", "undecided")


@dataclass(frozen=True, slots=True)
class CertifyOptions:
    """The arguments and options of `onnxgather certify`."""

    paths: tuple[str, ...]
    out_of_range: Sequence[OutOfRange]
    target: Sequence[ProvedTarget]
    model: str | None
    """The model in the place of those of the targets."""
    timeout: float
    fail_on: str | None
    jobs: int
    reading: Reading
    outputs: Outputs

    def pairs(self, of_program: bool) -> list[tuple[OutOfRange, ProvedTarget]]:
        """Return the policies, each with every target.

        Args:
            of_program: Whether the descriptor is of a program. Without a named policy
                an index out of range then does what it does in run and check. In a
                gather of an ONNX model it is an error.
        """
        policies: Sequence[OutOfRange] = self.out_of_range
        if not policies:
            policies = ["directml" if of_program else "error"]
        pairs = itertools.product(policies, self.target)
        return [*dict.fromkeys(pairs)]


@dataclass(frozen=True, slots=True)
class Pairing:
    """A descriptor, and the model that is to mean it."""

    name: str
    """Where the descriptor is from."""
    descriptor: Descriptor
    out_of_range: OutOfRange
    target: ProvedTarget
    model: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.out_of_range}, {self.model or self.target}"

    def certified(self, timeout: float) -> Certified:
        """Return the certificate."""
        # The import takes long, and no certificate is made where the usage is wrong.
        from onnxgather.proving.certify import certify

        with located(self.name):
            return certify(
                self.descriptor,
                self.out_of_range,
                self.target,
                self.model,
                timeout=timeout,
            )


@click.command("certify", cls=sources.JsonCommand)
@click.argument(
    "paths", nargs=-1, required=True, type=arguments.FILE, metavar="FILE..."
)
@arguments.policy(
    default_in_help="directml, as in run; of an ONNX model: error", multiple=True
)
@arguments.proved_target
@arguments.file("--model", help="Certify this ONNX model against the only descriptor.")
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
@arguments.allow_outside
@arguments.as_records(reading=Reading, outputs=Outputs)
def certify_command(**given: Any) -> int:
    """Prove that models mean their descriptors, for any data and every value of every index.

    A FILE is a program; or a folder: all *.json files in it and below it; or a pattern
    in quotes. A descriptor is proved, refuted, which is a finding, or undecided.
    --out-of-range and --target may come several times. Some proofs need a solver: pip
    install z3-solver.
    """  # noqa: E501
    options = CertifyOptions(**given)
    batch = Batch(prints=False)
    pairings = _pairings(options, batch)
    options.outputs.check_writable()
    work = partial(Pairing.certified, timeout=options.timeout)
    certificates = finished(batch, options.jobs, work, pairings, "descriptor")

    # Nothing is written where nothing is certified: the errors are printed by then.
    if certificates:
        contents = {"--json": partial(_json, batch, certificates)}
        is_printed = options.outputs.write(batch, contents)
        if not is_printed:
            policies = {pairing.out_of_range for pairing in certificates}
            for policy, row in POLICIES.items():
                if policy in policies:
                    say(f"policy {policy}: an index out of range {row.brief}")
            for pairing, certified in certificates.items():
                say(f"{pairing}: {certified}")
            say(_count(certificates.values()))

    states = {certified.state for certified in certificates.values()}
    if "refuted" in states or options.fail_on in states:
        return batch.finish([FINDINGS])
    return batch.finish()


def _count(certificates: Iterable[Certified]) -> str:
    """Return how many are in each state, as `1 proved, 0 refuted, 0 undecided`."""
    states = [certified.state for certified in certificates]
    return ", ".join(f"{states.count(state):,} {state}" for state in CERTIFICATE_STATES)


def _pairings(options: CertifyOptions, batch: Batch) -> list[Pairing]:
    """Return the descriptors of the files, each with the models that are to mean it.

    Raises:
        OnnxGatherError: An output is an input.
        UsageError: --model comes with several descriptors, policies or targets.
    """
    # Of equal descriptors under one pair, only the first is certified.
    names = dict[tuple[Descriptor, OutOfRange, ProvedTarget], str]()
    files = list[str]()
    for source in batch.sources(options.paths):
        with batch.step(source.path):
            gathers = gathers_in(batch, source, options.reading)
            files += gathers.files
            pairs = options.pairs(gathers.program is not None)
            for name, desc in gathers.descriptors.items():
                for policy, target in pairs:
                    place = f"{source.path}: {gathers.where(name)}"
                    names.setdefault((desc, policy, target), place)
    if options.model:
        files.append(options.model)
    options.outputs.check_apart_from_models(files)

    if options.model and len(names) > 1:
        count = len({desc for desc, _, _ in names})
        pairs_count = len({(policy, target) for _, policy, target in names})
        rule = "--model must come with one descriptor and one pair of rule and target"
        raise click.UsageError(f"{rule}, got {count:,} and {pairs_count}")

    return [
        Pairing(name, desc, policy, target, options.model)
        for (desc, policy, target), name in names.items()
    ]


def _json(batch: Batch, certificates: Mapping[Pairing, Certified]) -> bytes:
    """Return the certificates as JSON; of obligations it contains the number."""
    rows = list[dict[str, Any]]()
    for pairing, certified in certificates.items():
        row = {"name": pairing.name, "model": pairing.model, **asdict(certified)}
        row["obligations"] = len(certified.obligations)
        rows.append(row)
    unusable = [str(error) for _, error in batch.failures]
    return json_bytes({"schema": 1, "certificates": rows, "unusable": unusable})
