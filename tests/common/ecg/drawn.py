"""Windows of Gaussian waves whose beats and waves are known."""

from __future__ import annotations

import numpy as np

RATE = 125.0
SECONDS = 8.0


def drawn(beats: np.ndarray, qrs: float = 1.0, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """A window with R peaks at `beats` (s), float32 [1, L] in [0, 1].

    Args:
        qrs: how much wider than usual the QRS complex is.
        noise: standard deviation, in parts of the R wave.
    """
    t = np.arange(round(RATE * SECONDS)) / RATE
    x = noise * np.random.default_rng(seed).standard_normal(len(t))
    for height, at, width in ((0.15, -0.17, 0.02), (-0.12, -0.028 * qrs, 0.009 * qrs),
                              (1.0, 0.0, 0.011 * qrs), (-0.2, 0.03 * qrs, 0.01 * qrs),
                              (0.3, 0.27, 0.04)):
        for beat in beats:
            x = x + height * np.exp(-0.5 * ((t - beat - at) / width) ** 2)
    return ((x - x.min()) / np.ptp(x)).astype(np.float32)[None]


def regular(rr: float = 0.8, first: float = 0.5) -> np.ndarray:
    """Times of R peaks, s, none at the edges of a window."""
    return np.arange(first, SECONDS - 0.3, rr)
