"""Models whose indices stay in range, written and verified."""
