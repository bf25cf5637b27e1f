"""Cryptographic randomness for differential privacy: Gaussian noise and Poisson batches.

Both the noise and the draw of the batch must stay secret for the guarantee to hold, so neither
comes from a seedable generator: each call expands a fresh key of the operating system with
ChaCha20 (RFC 8439). No function here takes a seed, on purpose.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from common.errors import InputError

_DRAWS = 4  # Gaussians summed into one; the sum of 4 has a standard deviation of 2
_CHUNK = 1 << 18  # elements made at once, so that a large layer needs 30 MB and not gigabytes


def standard_gaussian(shape: Sequence[int], device: torch.device | str) -> torch.Tensor:
    """Draw independent N(0, 1) values from a ChaCha20 keystream.

    Each value is half the sum of four Box-Muller draws in float64, which hides the gaps in the
    floating-point outputs of one draw (Holohan & Braghin 2021, arXiv:2107.10138, section 5.1, as
    in Opacus's secure mode). Only the cosine of each pair is used: cosine and sine of one pair
    add up to a single draw again, which would undo that.

    Args:
        shape: the sizes of the tensor; () gives a scalar and a size of 0 an empty tensor.
        device: where the tensor is wanted; the draws themselves are made on the CPU.

    Returns:
        A float32 tensor without unit; the caller multiplies it by sigma times the clipping norm.

    Raises:
        InputError: if a size is negative.
    """
    if any(size < 0 for size in shape):
        raise InputError(f"shape is {tuple(shape)}; every size must be at least 0")
    total = math.prod(shape)
    out = np.empty(total, dtype=np.float32)
    for start in range(0, total, _CHUNK):
        stop = min(start + _CHUNK, total)
        out[start:stop] = _gaussian_chunk(stop - start)
    return torch.from_numpy(out).reshape(tuple(shape)).to(device)


def fast_gaussian(shape: Sequence[int], device: torch.device | str) -> torch.Tensor:
    """Draw N(0, 1) values from torch's own generator, newly seeded by the operating system.

    Some twenty times faster, and no protection: its state can be told from its outputs, and their
    gaps from the floating-point numbers. For simulations that say so.
    """
    generator = torch.Generator(device)
    generator.seed()
    return torch.randn(tuple(shape), generator=generator, device=device)


Gaussian = Callable[[Sequence[int], torch.device | str], torch.Tensor]
GAUSSIAN: dict[str, Gaussian] = {"secure": standard_gaussian, "fast": fast_gaussian}


def poisson_indices(n: int, q: float) -> NDArray[np.int64]:
    """Draw a Poisson batch: each of n units is in it with probability q, independently.

    Args:
        n: number of units (patients or windows).
        q: sampling rate, from 0 to 1; realised to within 2**-53.

    Returns:
        The chosen indices in ascending order, possibly none. They are secret: never log them.

    Raises:
        InputError: if n is negative or q is not a probability.
    """
    if n < 0:
        raise InputError(f"n is {n}; it must be at least 0")
    if not 0.0 <= q <= 1.0:
        raise InputError(f"q is {q}; it must lie between 0 and 1")
    return np.flatnonzero(_uniform(n) < q).astype(np.int64)


def _gaussian_chunk(count: int) -> NDArray[np.float64]:
    """Return `count` N(0, 1) values in float64, each half the sum of `_DRAWS` draws."""
    uniform = _uniform(2 * _DRAWS * count).reshape(2, _DRAWS, count)
    radius = np.sqrt(-2.0 * np.log1p(-uniform[0]))  # 1 - u is exact and lies in (0, 1]
    draws = radius * np.cos(2.0 * np.pi * uniform[1])
    total: NDArray[np.float64] = draws.sum(axis=0) / math.sqrt(_DRAWS)
    return total


def _uniform(count: int) -> NDArray[np.float64]:
    """Return `count` independent multiples of 2**-53 in [0, 1) from a keystream of a new key.

    A new key per call keeps forked processes apart and makes the zero nonce safe.
    """
    keystream = Cipher(ChaCha20(os.urandom(32), bytes(16)), mode=None).encryptor()
    words = np.frombuffer(keystream.update(bytes(8 * count)), dtype="<u8")
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
