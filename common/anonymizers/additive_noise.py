"""Gaussian and Laplacian noise on every sample: the undirected baselines of the REAN paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range


class GaussianNoise:
    """x + N(0, scale^2), without clipping.

    Source: REAN (arXiv:2607.06037), section IV-A, "full-signal Gaussian noise", which states no
    scale; its PRD of 24.0 % on windows in [0, 1] follows from one near 0.12. `scale` is searched
    like any other method's settings.

    Args:
        scale: standard deviation, in the window's [0, 1] range.
    """

    name = "gaussian"
    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {"scale": Range(0.005, 0.5, log=True)}

    def __init__(self, scale: float = 0.12) -> None:
        self.scale = scale

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Nothing is learned."""

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] with noise; values leave [0, 1]."""
        noise = np.random.default_rng(seed).standard_normal(data.x.shape, dtype=np.float32)
        return data.x + np.float32(self.scale) * noise


class LaplacianNoise:
    """x + Laplace(0, scale), without clipping; its standard deviation is sqrt(2) `scale`.

    Source: as for `GaussianNoise`; the paper's PRD of 33.7 % is sqrt(2) times the Gaussian's, so
    both have one scale there.
    """

    name = "laplacian"
    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {"scale": Range(0.005, 0.5, log=True)}

    def __init__(self, scale: float = 0.12) -> None:
        self.scale = scale

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Nothing is learned."""

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] with noise; values leave [0, 1]."""
        noise = np.random.default_rng(seed).laplace(0.0, self.scale, data.x.shape)
        return data.x + noise.astype(np.float32)
