"""Who retrains on what was released: how much must be collected, and does the architecture matter?

This is the honest headline of a release. A recipient who knows some patients' releases trains on
them; what is measured is how well the others' windows of the same patients are then named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from common.training import Indices, seed_from
from server.attackers import ARCHITECTURES, Windows, train_attacker
from server.attacks.case import Case, classified
from server.bundles import Bundles

SHARES = (20, 50, 100)  # percent of the training windows that are anonymized
COLLECTED = (1, 2, 5, 10, 20, 50, 100, 200)  # anonymized windows of a patient


def attack(case: Case) -> dict[str, Any]:
    """Mixes per architecture, and ReID by the number of anonymized windows of a patient.

    Returns:
        clean: architecture -> ReID, sex, age of clean windows before it trained on, which shows its
        strength. mixes: share -> architecture -> "disjoint" (the anonymized windows are the last
        in time, and no clean version of them is known) and "pairs" (both versions are): ReID,
        sex, age.
        At 100 percent no clean window is used. collected: number -> the same, of one architecture
        that knows clean windows and so many anonymized ones of each patient.
    """
    bundles, mixes = case.bundles, dict[str, Any]()
    clean = {name: classified(bundles, case.attacker_of(name), bundles.clean)
             for name in ARCHITECTURES}
    for share in SHARES:
        for architecture in ARCHITECTURES:
            mixes.setdefault(f"{share}", {})[architecture] = {
                kind: _mixed(case, architecture, share, kind)
                for kind in (("disjoint", "pairs") if share < 100 else ("disjoint",))}
    return {"clean": clean, "mixes": mixes, "collected": _collected(case)}


def _mixed(case: Case, architecture: str, share: int, kind: str) -> dict[str, Any]:
    if (architecture, share) == ("resnet1d", 100):
        return classified(case.bundles, case.retrained, case.bundles.released)
    name = f"retrained-{architecture}-{share}-{kind}"
    train = case.bundles.released_rows("train")
    last = latest(case.bundles, train, share / 100)
    clean = train if kind == "pairs" else np.setdiff1d(train, last)
    case.progress(f"retraining {architecture} with {share} % anonymized windows, {kind}")
    return _retrained(case, architecture, name, clean, last)


def _collected(case: Case) -> dict[str, Any]:
    """ReID by how many anonymized windows of a patient an attacker has collected."""
    bundles = case.bundles
    train = bundles.released_rows("train")
    generator = np.random.default_rng(seed_from(case.settings, "auditor", "collected"))
    order = generator.permutation(train)
    turn = np.zeros(len(order), np.int64)  # of each window among its patient's
    for patient in np.unique(bundles.patient[order]):
        own = np.flatnonzero(bundles.patient[order] == patient)
        turn[own] = np.arange(len(own))
    found = {}
    for number in [n for n in COLLECTED if n <= turn.max(initial=0) + 1]:
        few = np.sort(order[turn < number])
        # As many of them as of clean ones, or the clean ones drown them.
        repeated = np.resize(few, max(len(few), len(train)))
        case.progress(f"retraining with {number} anonymized windows a patient")
        found[f"{number}"] = _retrained(case, "resnet1d", f"collected-{number}", train, repeated)
    return found


def latest(bundles: Bundles, rows: Indices, share: float) -> Indices:
    """The last share of each patient's rows, by record and time."""
    order = rows[np.lexsort((bundles.start[rows], bundles.record[rows], bundles.patient[rows]))]
    patient = bundles.patient[order]
    names, firsts, counts = np.unique(patient, return_index=True, return_counts=True)
    place = np.arange(len(order)) - firsts[np.searchsorted(names, patient)]
    kept = place >= np.round((1 - share) * counts)[np.searchsorted(names, patient)]
    return np.sort(order[kept])


def _retrained(case: Case, architecture: str, name: str, clean: Indices,
               released: Indices) -> dict[str, Any]:
    """Train on with these windows, and name the test part's released ones."""
    start = case.attacker_of(architecture)
    known, windows = mixture(case.bundles, clean, released)
    attacker = train_attacker(known, windows, case.settings, case.folder / f"{name}.safetensors",
                              start, architecture)
    return classified(case.bundles, attacker, case.bundles.released)


def mixture(bundles: Bundles, clean: Indices, released: Indices) -> tuple[Bundles, Windows]:
    """A training set of clean and released windows: its labels, and the windows [n, leads, L]."""
    rows = np.concatenate([clean, released])
    windows = np.concatenate([bundles.clean[clean], bundles.released[released]])
    known = replace(bundles, patient=bundles.patient[rows], sex=bundles.sex[rows],
                    age=bundles.age[rows], part=np.zeros(len(rows), np.int64))
    return known, windows
