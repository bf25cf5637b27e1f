"""Was this patient's data in the training set of a model that left the hospital?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from common.audits.membership import loss_gap
from common.protocol import ARRHYTHMIA_CLASSES
from common.training import allowed_loss
from server.attacks.case import Case


def attack(case: Case) -> dict[str, Any]:
    """Loss gap of the diagnosis model, per hospital."""
    bundles = case.bundles
    scores = np.concatenate(bundles.frozen["diagnosis-clean"]).astype(np.float64)
    loss = allowed_loss(torch.from_numpy(scores),
                        torch.from_numpy(bundles.allowed.astype(np.int64))).numpy()
    informative = bundles.allowed != (1 << len(ARRHYTHMIA_CLASSES)) - 1
    result = {}
    for number, info in enumerate(bundles.info):
        rows = np.flatnonzero((bundles.hospital == number) & (bundles.part == 0) & informative)
        result[info["site"]] = loss_gap(loss[rows], ~bundles.reserved[rows], bundles.patient[rows])
    return {"diagnosis": result}
