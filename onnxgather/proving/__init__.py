"""Certificates: proofs that a model computes what its descriptor says, for any data and index."""
