"""The features that the trees of an ensemble read.

A tree ensemble has its indices in an attribute: the column of its input that each node
compares.
"""

from __future__ import annotations

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation


def features_of(operation: Operation) -> Array:
    """Return the feature of each node of a tree ensemble, 0 for a leaf without one."""
    features = np.array(operation.attributes["nodes_featureids"])
    is_unused = _is_leaf(operation) & (features < 0)
    return np.where(is_unused, 0, features)


def leaves_have_features(operation: Operation) -> bool:
    """Return whether a leaf of a tree ensemble has a feature beside the first.

    Whether that feature must be in range depends on `quirks.FEATURES_OF_LEAVES`.
    """
    of_leaves = features_of(operation)[_is_leaf(operation)]
    return bool(of_leaves.any())


def _is_leaf(operation: Operation) -> Array:
    """Return which nodes of a tree ensemble are leaves."""
    count = len(operation.attributes["nodes_featureids"])
    modes = operation.attributes.get("nodes_modes", ())
    # The nodes of a TreeEnsemble (ai.onnx.ml 5) are no leaves. ONNX Runtime refuses
    # an ensemble that has not a mode for each node.
    if len(modes) != count:
        return np.zeros(count, bool)
    return np.array([mode == "LEAF" for mode in modes], bool)
