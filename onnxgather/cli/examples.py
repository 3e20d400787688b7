"""Two examples for each command, which stand at the end of its help.

They run as they stand in the root of a checkout.
"""

from __future__ import annotations

from typing import Any

import click

from onnxgather.cli.sources import JsonCommand

EXAMPLES = {
    "audit": """\
onnxgather audit models/networks/keywords.onnx
onnxgather audit models --fail-on not-proved --markdown audit.md
""",
    "certify": """\
onnxgather certify models/gather_3_swap_columns.json
onnxgather certify models --out-of-range zero --target cpu --target webnn
""",
    "check": """\
onnxgather check models --lanes cpu,cpu@native
onnxgather check --corpus -k gather-nd/ --html check.html
""",
    "convert": """\
onnxgather convert models/gather_3_swap_columns.json -o swap.onnx --verify
onnxgather convert models -o converted --json=manifest.json
""",
    "corpus export": """\
onnxgather corpus export cases --format json
onnxgather corpus export backend-tests --format onnx
""",
    "doctor": """\
onnxgather doctor
onnxgather doctor --json=doctor.json
""",
    "explain": """\
onnxgather explain models/gather_3_swap_columns.json --at 1,0
onnxgather explain models/gather_3_swap_columns.onnx --at 1,0
""",
    "extract": """\
onnxgather extract models/networks/keywords.onnx --all -o gathers \\
    --inputs models/networks/keywords.npz
onnxgather extract models/networks/keywords.onnx --node word_embedding \\
    --inputs models/networks/keywords.npz -o word_embedding
""",
    "harden": """\
onnxgather harden models/networks/keywords.onnx -o hardened.onnx --verify
onnxgather harden models/networks/keywords.onnx -o zeros.onnx \\
    --out-of-range zero
""",
    "judge": """\
onnxgather judge cases answers
onnxgather judge cases answers -k gather-nd/ --html judged.html
""",
    "report merge": """\
onnxgather report merge first.json second.json --html whole.html
onnxgather report merge first.json second.json --json
""",
    "repro": """\
onnxgather repro models/gather_3_swap_columns.json -o repro
onnxgather repro report.json -o repro
""",
    "run": """\
onnxgather run models/gather_3_swap_columns.json
onnxgather run models/image_remap.json --provider cpu --out-of-range clamp
""",
    "show": """\
onnxgather show models/gather_3_swap_columns.json
onnxgather show models --html gathers.html
""",
}
"""The only table of examples: two for each command, by its words."""


def examples_of(command: str) -> str:
    """Return the examples of a command as the end of its help.

    A backslash at the end of a line says that the next line belongs to it.
    """
    lines = [f"  {line}" for line in EXAMPLES[command].splitlines()]
    return "\n".join(["\b", "Examples:", *lines])


def command(name: str, kind: type[click.Command] = JsonCommand, words: str = "") -> Any:
    """Return the decorator of a command, whose help ends with its examples.

    Args:
        name: Its name.
        kind: The class of the command.
        words: What its help says before the examples.
    """
    epilog = f"{words}\n{examples_of(name)}"
    return click.command(name, cls=kind, epilog=epilog)
