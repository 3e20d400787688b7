"""Repros: a difference reduced to the smallest case that shows it, as a folder."""
