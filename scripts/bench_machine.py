"""The machine that a benchmark runs on: its processor, its caches, a short name."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def processor() -> str:
    """Return the processor's name, with the numbers that tell it from its namesakes."""
    facts = _cpuinfo()
    if "cpu family" not in facts:  # another system, or another architecture
        return platform.processor() or platform.machine()
    name, family, model = facts["model name"], facts["cpu family"], facts["model"]
    return f"{name}, family {family}, model {model}"


def caches() -> str:
    """Return the caches that hold data, of the first core and those that share them."""
    sizes: list[str] = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level = (folder / "level").read_text().strip()
        kind = (folder / "type").read_text().strip()
        kibibytes = int((folder / "size").read_text().strip().removesuffix("K"))
        if kind != "Instruction":
            sizes.append(f"L{level} {kibibytes:,} KiB")
    return ", ".join(sizes) or "unknown"


def vectors() -> str:
    """Return the widest vectors of the processor that the kernels may use."""
    flags = _cpuinfo().get("flags", "").split()
    if "avx512f" in flags:
        return "AVX-512"
    return "AVX2" if "avx2" in flags else "neither AVX2 nor AVX-512"


def machine_kind() -> str:
    """Return the processor's name as that of a file: amd-epyc-family-25-model-1."""
    words = re.findall(r"[a-z0-9]+", processor().lower())
    return "-".join(words)


def _cpuinfo() -> dict[str, str]:
    """Return what Linux says of the last core; nothing elsewhere."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
