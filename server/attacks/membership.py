"""Was this patient's data in the training set of a model that left the hospital?

The cheap attack, which needs no model of the attacker's own: whose loss is low was a member.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.membership import by_patient
from common.audits.rates import auc, rates
from common.training import Indices
from server.attacks.case import Case
from server.attacks.signals import signals
from server.bundles import Bundles

Floats = NDArray[np.float64]


def attack(case: Case) -> dict[str, Any]:
    """Loss threshold on every model: model -> "loss" -> the tree of `verdict`."""
    return {stage: {"loss": verdict(case.bundles, signal.rows, -signal.target)}
            for stage, signal in signals(case).items()}


def verdict(bundles: Bundles, rows: Indices, score: Floats) -> dict[str, Any]:
    """What scores tell, where members and non-members come from the same hospital.

    A hospital's median is taken from its scores, which needs no label, so that a threshold that
    all hospitals share compares patients of one hospital. A hospital without a member or without
    a non-member takes no part.

    Args:
        bundles: who was a member.
        rows: windows, in the bundles' order, [n].
        score: of each, higher means member; NaN takes no part, [n].

    Returns:
        "patient" and "window" -> the tree of `rates`; "hospitals" -> site -> members and
        non_members (patients), and their AUC.
    """
    kept = np.isfinite(score)
    rows, score = rows[kept], score[kept].copy()
    part, hospitals = np.zeros(len(rows), dtype=bool), {}
    for number, info in enumerate(bundles.info):
        at = np.flatnonzero(bundles.hospital[rows] == number)
        mean, inside, names = by_patient(score[at], ~bundles.reserved[rows[at]],
                                         bundles.patient[rows[at]])
        hospitals[info["site"]] = {"members": int(inside.sum()),
                                   "non_members": int((~inside).sum()),
                                   "auc": auc(mean, inside, names)}
        if inside.any() and not inside.all():
            part[at] = True
            score[at] -= np.median(score[at])
    rows, score = rows[part], score[part]
    windows = score, ~bundles.reserved[rows], bundles.patient[rows]
    return {"patient": rates(*by_patient(*windows)), "window": rates(*windows),
            "hospitals": hospitals}
