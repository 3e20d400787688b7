"""Running models: on one provider with proof, elsewhere, or on native kernels."""
