"""Lanes: what cases are put to, and what answers with evidence."""
