"""Where the tests find the files of the repository."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
DATA = TESTS / "data"
OBSERVED = DATA / "observed"
ROOT = TESTS.parent
MODELS = ROOT / "models"
