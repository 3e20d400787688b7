"""Certificates: proofs that a model means its descriptor, for any data and index."""
