"""What kind of person is it? Sex and age band; unknown ones are left out, not guessed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.results import Estimate, mean_estimate


def attribute(scores: NDArray[np.float64], label: NDArray[np.int64],
              patient: NDArray[np.int64]) -> Estimate:
    """Accuracy over windows with a known label.

    Chance is 1 / classes, as in the paper; where a band is more frequent, guessing it does better.
    An accuracy below chance on two classes is invertible: read its distance from one half.

    Args:
        scores: [n, classes].
        label: [n], -1 where unknown.
        patient: [n].
    """
    known = label >= 0
    hit = scores[known].argmax(1) == label[known] if known.any() else np.array([])
    return mean_estimate(hit, patient[known], chance=1 / scores.shape[1])
