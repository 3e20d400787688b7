"""Certifies a part of the corpus for each policy and target, and tells what is not proved.

    python scripts/certified.py [--every 30]

The exit code is 1 where a descriptor is not proved.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product

import onnxgather as og
from onnxgather.options import POLICIES, TARGETS
from onnxgather.parity.cases import DescriptorCase
from onnxgather.parity.corpus import built_in_cases


def main() -> int:
    """Certify every n-th descriptor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=30, metavar="N", help="which descriptors")
    every = parser.parse_args().every
    cases = (case for case in built_in_cases() if isinstance(case, DescriptorCase))
    descriptors = list(dict.fromkeys(case.descriptor for case in cases))[::every]
    count = unproved = 0
    for desc, policy, target in product(descriptors, POLICIES, TARGETS):
        found = og.certify(desc, policy, target)
        count += 1
        if found.state != "proved":
            unproved += 1
            print(f"{og.to_dict(desc)}: {policy}, {target}: {found}")
    print(f"{count - unproved:,} of {count:,} proved")
    return int(unproved > 0)


if __name__ == "__main__":
    sys.exit(main())
