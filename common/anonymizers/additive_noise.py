"""Gaussian and Laplacian noise on every sample: the undirected baselines of the REAN paper.

Source: REAN (arXiv:2607.06037), section IV-A, which states no scale; a PRD of 24.0 % (Gaussian) and
33.7 % (Laplacian) on windows in [0, 1] follows from one near 0.12 for both, as the standard
deviation of the latter is sqrt(2) times its scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range


class _AdditiveNoise(ABC):
    """x + noise, without clipping.

    Args:
        scale: of the noise, in the window's [0, 1] range; searched like any method's settings.
    """

    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {"scale": Range(0.005, 0.5, log=True)}

    def __init__(self, scale: float = 0.12) -> None:
        self.scale = scale

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:  # noqa: B027
        """Nothing is learned."""

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] with noise; values leave [0, 1]."""
        return data.x + self.noise(np.random.default_rng(seed), data.x.shape)

    @abstractmethod
    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Noise of a shape."""


class GaussianNoise(_AdditiveNoise):
    """x + N(0, scale^2)."""

    name = "gaussian"

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Of standard deviation `scale`."""
        return np.float32(self.scale) * generator.standard_normal(shape, dtype=np.float32)


class LaplacianNoise(_AdditiveNoise):
    """x + Laplace(0, scale)."""

    name = "laplacian"

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Of standard deviation sqrt(2) `scale`."""
        return generator.laplace(0.0, self.scale, shape).astype(np.float32)
