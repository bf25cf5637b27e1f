"""Whether a hospital is large enough for the privacy that a run asks for, said before it trains."""

from __future__ import annotations

import math

import numpy as np
from torch import nn

from common.config import Settings
from common.ecg.store import Store
from common.errors import SettingsError
from common.privacy.accounting import Spend

USEFUL = 10.0  # noise over signal above which a step learns next to nothing


def check_privacy(site: str, store: Store, settings: Settings) -> None:
    """Refuse a delta that says nothing at the hospital's size, and steps of less than one patient.

    Raises:
        SettingsError: with the numbers.
    """
    privacy = settings.privacy
    if privacy.unit == "none":
        return
    rows = store.select("train", reserved=False)
    patients = len(np.unique(store.index["patient"][rows]))
    units = patients if privacy.unit == "patient" else len(rows)
    if units and privacy.delta * units >= 1:
        raise SettingsError(
            f"privacy.delta is {privacy.delta:g} and hospital {site} has {units} {privacy.unit}s "
            f"in training; allowed is below 1 / {units} = {1 / units:.3g}, as delta is the chance "
            f"that a {privacy.unit} is not protected at all")
    if privacy.unit == "patient" and privacy.trust == "hospital" and privacy.q * patients < 1:
        raise SettingsError(
            f"privacy.q is {privacy.q:g} and hospital {site} has {patients} patients in training, "
            f"so a step sees {privacy.q:g} x {patients} = {privacy.q * patients:.2g} of them; at "
            f"least 1 is needed: q of {min(1.0, 1 / max(1, patients)):.2g} or more, or "
            "privacy.trust=aggregate")


def noise_over_signal(network: nn.Module, spend: Spend, expected: float) -> tuple[float, str]:
    """A step's noise over the largest signal that clipping lets through, and how it comes about.

    The sum of q N clipped gradients has a length of at most q N C, its noise one of about
    sigma C sqrt(d).

    Args:
        network: with d trainable weights.
        spend: of the round.
        expected: patients, or windows, of a step, q N.
    """
    weights = sum(p.numel() for p in network.parameters() if p.requires_grad)
    ratio = spend.sigma * math.sqrt(weights) / expected
    return ratio, (f"sigma {spend.sigma:.2f} x sqrt({weights} weights) / {expected:.3g} a step = "
                   f"{ratio:.0f}")
