"""What a hospital's folder holds, in plain facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from common.audits.utility import decided
from common.ecg.databases import load_hospital
from common.ecg.windows import WindowSettings, prepare
from common.protocol import ARRHYTHMIA_CLASSES


def describe_hospital(file: Path, data: Path) -> dict[str, Any]:
    """Patients, hours, windows per class, and what was left out, of one hospital file."""
    store = prepare(load_hospital(file), data / "stores", WindowSettings(250, 8.0, 0.15, 0))
    index, info = store.index, store.info
    facts: dict[str, Any] = {
        "name": info["name"], "patients": len(np.unique(index["patient"])),
        "records": len(info["records"]), "leads": info["leads"], "hours": info["hours"],
        "windows": len(index),
    }
    for mode in ("strict", "paper"):
        classes = decided(store.labels(mode))
        facts[f"windows per class (labels={mode})"] = {
            name: int(np.sum(classes == i)) for i, name in enumerate(ARRHYTHMIA_CLASSES)
        } | {"undecided": int(np.sum(classes < 0))}
    for name, label in (("sex", ("M", "F")),):
        first = np.unique(index["patient"], return_index=True)[1]
        facts[name] = {text: int(np.sum(index[name][first] == i)) for i, text in enumerate(label)}
        facts[name]["unknown"] = int(np.sum(index[name][first] < 0))
    facts["windows left out"] = info["skipped"]
    facts["records left out"] = info["left_out"]
    facts["uncalibrated records"] = info["uncalibrated"]
    return facts
