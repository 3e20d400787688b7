"""Descriptors of the four gathers: their rules, their meaning, their spelling in files."""
