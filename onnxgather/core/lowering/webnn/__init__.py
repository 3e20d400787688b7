"""The lowering for WebNN: descriptors as calls of an MLGraphBuilder."""
