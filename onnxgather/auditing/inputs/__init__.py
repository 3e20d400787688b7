"""Inputs of a model that meet its contract, in the formats of other tools."""
