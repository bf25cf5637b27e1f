"""A crowd with few names and places, so that tokens repeat."""

import numpy as np

from common.linkage.keys import People


def crowd(n, seed, names=300, places=40):
    """People drawn at random; names and places are far from uniform."""
    generator = np.random.default_rng(seed)
    share = 1 / np.arange(1, names + 1)
    share /= share.sum()
    first, last = (generator.choice(names, n, p=share).astype(np.uint32) for _ in range(2))
    return People(
        first=first, last=last, born=generator.integers(7000, 37000, n).astype(np.uint16),
        gender=generator.integers(0, 2, n).astype(np.uint8),
        zip5=generator.integers(0, 10 * places, n).astype(np.uint16),
        initials=generator.integers(0, 26, names).astype(np.uint8),
        soundex_first=generator.integers(0, 60, names).astype(np.uint16),
        soundex_last=generator.integers(0, 90, names).astype(np.uint16),
        zip3_of=np.repeat(np.arange(places), 10).astype(np.uint16))
