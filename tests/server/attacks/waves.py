"""Bundles and cases as small as an attack can be tried on: each patient has a frequency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from common.config import Audit, Profile, Settings
from server.attacks.case import Case
from server.bundles import Bundles

PATIENTS, CLASSES, LENGTH = 4, 4, 128


def bundles(n: int = 128, **changes: Any) -> Bundles:
    """Of n windows the first half is for training; the class decides the amplitude."""
    number = np.arange(n)
    patient, zero = number % PATIENTS, np.zeros(n, dtype=np.int64)
    label = number // PATIENTS % CLASSES
    time = np.linspace(0, 1, LENGTH)
    phase = np.random.default_rng(0).random((n, 1))
    tones = np.sin(2 * np.pi * (time * (3 + 2 * patient[:, None]) + phase))
    clean = (0.5 + (0.1 + 0.1 * label[:, None]) * tones)[:, None].astype(np.float32)
    arrays: dict[str, Any] = {
        "clean": clean, "released": clean.copy(), "patient": patient, "record": patient,
        "hospital": zero, "part": np.where(number < n // 2, 0, 2), "sex": patient % 2,
        "age": patient, "slot": patient, "start": number * 8.0,
        "allowed": (1 << label).astype(np.uint8), "reserved": zero.astype(bool), "frozen": {},
        "info": []}
    return Bundles(**arrays | changes)


def case(folder: Path, evidence: Bundles, steps: int, *, seeds: int = 1, rate: int = 100) -> Case:
    """A case whose networks train for so many steps."""
    folder.mkdir(parents=True, exist_ok=True)
    audit = Audit(steps=steps, batch=16, width=4, seeds=seeds)
    settings = Settings(threads=1, device="cpu", audit=audit, profile=Profile(sampling_rate=rate))
    return Case(evidence, settings, folder, lambda line: None)


def some_missing(evidence: Bundles) -> Bundles:
    """Every eighth window was not released."""
    evidence.released[::8] = np.nan
    return evidence
