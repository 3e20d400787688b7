"""Parity: cases run on lanes, and each result compared with the reference, byte for byte."""
