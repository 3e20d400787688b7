"""The command `certify`, which proves that models mean their descriptors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import asdict

from onnxgather.cli import arguments
from onnxgather.cli.examples import command
from onnxgather.cli.outputs import Outputs
from onnxgather.cli.processes import finished
from onnxgather.cli.sources import Batch, Reading, gathers_in
from onnxgather.cli.terminal import say
from onnxgather.core.checks import LONGEST_TIMEOUT, listed
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import FINDINGS, located
from onnxgather.core.files import is_model
from onnxgather.core.options import POLICIES, OutOfRange, ProvedTarget
from onnxgather.core.programs.program import BARE, Program

if TYPE_CHECKING:
    from onnxgather.proving.certify import Certified

CERTIFICATE_STATES = ("proved", "refuted", "undecided")


class CertifyOptions(NamedTuple):
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

    def pairs(
        self, policy: OutOfRange, target: ProvedTarget
    ) -> list[tuple[OutOfRange, ProvedTarget]]:
        """Return the policies, each with every target.

        Args:
            policy: The policy, if the user names none.
            target: The target, if the user names none.
        """
        policies = self.out_of_range or [policy]
        targets = self.target or [target]
        pairs = itertools.product(policies, targets)
        return [*dict.fromkeys(pairs)]


class Pairing(NamedTuple):
    """A descriptor, and the model that is to mean it."""

    name: str
    """Where the descriptor is from."""
    descriptor: Descriptor
    out_of_range: OutOfRange
    target: ProvedTarget
    model: str | None

    def __str__(self) -> str:
        # Case: the model has its descriptor in its metadata.
        if self.model == self.name:
            return f"{self.name}: {self.out_of_range}"
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


@command("certify")
@arguments.files("paths", metavar="FILE...")
@arguments.policy(multiple=True)
@arguments.proved_target
@arguments.file("--model", help="Certify this ONNX model against the only descriptor.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, LONGEST_TIMEOUT, min_open=True),
    default=60,
    show_default=True,
    metavar="S",
    help="Seconds that the solver may take for a descriptor.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["undecided"]),
    metavar="undecided",
    help="Let an undecided descriptor be a finding too.",
)
@arguments.number(
    "--jobs", most=64, default=1, help="Processes that work side by side."
)
@arguments.json_file("certificates")
@arguments.allow_outside
@arguments.as_records(reading=Reading, outputs=Outputs)
def certify_command(**given: Any) -> int:
    """Prove that models mean their descriptors, for any data and every value of every index.

    A FILE is a program or a descriptor, whose models are made and proved; or an ONNX
    model that onnxgather wrote, which is itself proved; or a folder: all *.json files
    in it and below it; or a pattern in quotes. A descriptor is proved, refuted, which
    is a finding, or undecided. Of equal descriptors the first is proved. --out-of-range
    and --target may come several times. Most proofs need a solver: pip install
    z3-solver.
    """  # noqa: E501
    options = CertifyOptions(**given)
    batch = Batch(prints=False)
    pairings = _pairings(options, batch)
    options.outputs.check_writable()
    work = partial(Pairing.certified, timeout=options.timeout)
    certificates = finished(batch, options.jobs, work, pairings, "descriptor")

    states = [certified.state for certified in certificates.values()]
    # Nothing is written where nothing is certified: the errors are printed by then.
    if certificates:
        record = _record(batch, certificates)
        is_printed = options.outputs.write_json(batch, record)
        if not is_printed:
            policies = {pairing.out_of_range for pairing in certificates}
            for policy, row in POLICIES.items():
                if policy in policies:
                    say(f"policy {policy}: an index out of range {row.brief}")
            for pairing, certified in certificates.items():
                say(f"{pairing}: {certified}")
            counts = [
                f"{states.count(state):,} {state}" for state in CERTIFICATE_STATES
            ]
            say(", ".join(counts))

    if "refuted" in states or options.fail_on in states:
        return batch.finish([FINDINGS])
    return batch.finish()


def _pairings(options: CertifyOptions, batch: Batch) -> list[Pairing]:
    """Return the descriptors of the files, each with the models that are to mean it.

    Raises:
        OnnxGatherError: An output is an input.
        UsageError: --model comes with several descriptors, policies or targets.
    """
    # Of equal descriptors whose models are made alike, only the first is certified.
    names = dict[tuple[Descriptor, OutOfRange, ProvedTarget, str | None], str]()
    repeated = dict[str, None]()
    files = list[str]()
    policy_of_model, target = _usual_pair(options, batch)
    for source in batch.sources(options.paths):
        with batch.step(source.path):
            program = _own_program(options, batch, source.path)
            if program is not None and program.model is not None:
                files.append(source.path)
                model = source.path
                own = program.model
                pairs = options.pairs(own.out_of_range, own.target)
                descriptors = [(source.path, program.dispatchables[BARE].descriptor)]
            else:
                gathers = gathers_in(batch, source, options.reading)
                files += gathers.files
                model = options.model
                pairs = options.pairs(policy_of_model or gathers.policy, target)
                descriptors = [
                    (gathers.place(name), desc)
                    for name, desc in gathers.descriptors.items()
                ]
            for place, desc in descriptors:
                for pair in pairs:
                    first = names.setdefault((desc, *pair, model), place)
                    if first != place:
                        repeated[place] = None
    if repeated:
        listing = listed([*repeated], 4)
        batch.tell(f"not proved again, as an equal descriptor is proved: {listing}")
    if options.model:
        files.append(options.model)
    options.outputs.check_apart_from_models(files)

    if options.model and len(names) > 1:
        count = len({desc for desc, *_ in names})
        pairs_count = len({(policy, target) for _, policy, target, _ in names})
        raise click.UsageError(
            "--model must come with one descriptor and one pair of rule and target"
            f", got {count:,} and {pairs_count}"
        )
    return [Pairing(name, *pairing) for pairing, name in names.items()]


def _usual_pair(
    options: CertifyOptions, batch: Batch
) -> tuple[OutOfRange | None, ProvedTarget]:
    """Return the policy and the target of the model of --model, if onnxgather wrote it.

    Else there is no policy, and the target is "portable".
    """
    if options.model is not None:
        program = batch.read_own(options.model, Reading())
        if program is not None and program.model is not None:
            return program.model.out_of_range, program.model.target
    return None, "portable"


def _own_program(options: CertifyOptions, batch: Batch, path: str) -> Program | None:
    """Return what a file was made from, if it is a model that onnxgather wrote.

    A model that was changed since counts where its inputs and outputs fit: the proof
    says whether it still means the descriptor.

    Raises:
        OnnxGatherError: The metadata do not fit the model.
        UsageError: An option names another model.
    """
    if not is_model(path) or options.reading.is_of_graph:
        return None
    # --help must not load onnx.
    from onnxgather.core.programs.loading import (
        OF_ANOTHER_GRAPH,
        changed_program,
        model_with_entry,
        own_program,
    )

    found = model_with_entry(path)
    if found is None:
        return None
    model, weights = found
    program = own_program(model, path, weights)
    if program is None:
        program = changed_program(model, path, weights)
        if program is None:
            return None
        batch.tell(
            f"{path}: its metadata of onnxgather {OF_ANOTHER_GRAPH}; it is judged by"
            " the descriptor in them"
        )
    option = ""
    if options.target:
        option = "--target"
    elif options.model:
        option = "--model"
    if option:
        raise click.UsageError(
            f"{option} must not come with {path}, as the file itself is proved"
        )
    return program


def _record(batch: Batch, certificates: Mapping[Pairing, Certified]) -> dict[str, Any]:
    """Return the certificates as JSON has them: of obligations the number."""
    rows = list[dict[str, Any]]()
    for pairing, certified in certificates.items():
        row = {"name": pairing.name, "model": pairing.model, **asdict(certified)}
        row["obligations"] = len(certified.obligations)
        rows.append(row)
    unusable = [str(error) for _, error in batch.failures]
    return {"schema": 1, "certificates": rows, "unusable": unusable}
