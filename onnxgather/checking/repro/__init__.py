"""Repros: a difference reduced to the smallest case that shows it, in a folder with a script."""
