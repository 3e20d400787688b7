"""Descriptors of the four gathers: their rules, meaning and spelling in files."""
