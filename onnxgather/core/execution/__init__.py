"""Models and gathers run: on one provider with proof, in other programs, on the native kernels."""
