"""Where the tests find the files of the repository."""

from __future__ import annotations

from pathlib import Path

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
DATA = ROOT / "tests" / "data"
OBSERVED = DATA / "observed"
MODELS = ROOT / "models"
