"""The numbers of which the corpus is made."""

from __future__ import annotations

from onnxgather.core.descriptors.random_numbers import Stream, splitmix64


def test_numbers_are_those_of_the_reference_implementation() -> None:
    # The first outputs for seed 0 of the reference implementation at prng.di.unimi.it.
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert splitmix64(0, 3).tolist() == expected
    stream = Stream(0)
    assert [stream.number() for _ in range(3)] == expected
    other = Stream(2**64 - 5)
    assert [other.number() for _ in range(9)] == splitmix64(2**64 - 5, 9).tolist()
