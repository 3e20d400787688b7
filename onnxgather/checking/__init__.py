"""Parity: cases run on lanes, and each answer compared with the reference, byte for byte."""
