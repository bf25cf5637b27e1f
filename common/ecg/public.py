"""Windows of people who do not exist: whatever is learned from them costs nobody privacy."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from common.ecg.cutting import WindowSettings
from common.ecg.hospital_file import load_hospital
from common.ecg.store import Store
from common.ecg.synthetic import CohortSettings, write_consortium
from common.ecg.windows import prepare

_SEED = 0x5EED  # none that a cohort under study is likely to have
_HOSPITAL = "mitdb"  # of the embedded dialects, the one with every kind of beat
_MINUTES = 3.0


def public_store(patients: int, settings: WindowSettings, directory: Path) -> Store:
    """Windows of synthetic people, the same for whoever asks; written once, below `directory`.

    Args:
        patients: how many.
        settings: rate and length of the windows.
        directory: where the records and windows are kept.
    """
    cohort = CohortSettings(patients, _MINUTES, _SEED)
    key = hashlib.sha256(repr(cohort).encode()).hexdigest()[:10]
    folder = Path(directory) / f"public-{key}"
    file = folder / _HOSPITAL / "hospital.yaml"
    if not file.exists():
        write_consortium(folder, cohort, [_HOSPITAL])
    return prepare(load_hospital(file), Path(directory) / "stores",
                   replace(settings, reserved=0.0, seed=0))
