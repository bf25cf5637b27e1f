"""Windows as vectors: each way to embed them is an attacker of its own.

The classifier before its head, a network trained for nothing but similarity, hand-made features,
which need no training on waveforms, and the samples as they are, which is also how embeddings that
a user gives are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from common.audits.fiducial import discriminate, fiducial_features
from common.training import Indices, seed_from
from server.attackers import Windows
from server.attacks.case import Case
from server.metric_attacker import train_metric

_FIDUCIAL = 20  # windows of a patient that are delineated, of the gallery and of the probes each


@dataclass(frozen=True)
class Pair:
    """Embeddings of enrolled windows and of probes, both [n, d] in the bundles' order."""

    enrolled: Windows
    probes: Windows


def _classifier(case: Case) -> tuple[Indices, dict[str, Pair]]:
    return _networks(case, case.attacker.embed, case.retrained.embed)


def _metric(case: Case) -> tuple[Indices, dict[str, Pair]]:
    bundles, settings = case.bundles, case.settings
    case.progress("training a metric-learning attacker on clean windows")
    clean = train_metric(bundles, bundles.clean, settings, case.folder / "metric.safetensors")
    case.progress("retraining the metric-learning attacker on released windows")
    retrained = train_metric(bundles, bundles.released, settings,
                             case.folder / "metric-retrained.safetensors", start=clean)
    return _networks(case, clean.embed, retrained.embed)


def _networks(case: Case, clean: Callable[[Windows], Windows],
              retrained: Callable[[Windows], Windows]) -> tuple[Indices, dict[str, Pair]]:
    bundles = case.bundles
    before, after = clean(bundles.clean), clean(bundles.released)
    known = retrained(bundles.released)
    return np.arange(len(bundles.patient)), {
        "clean": Pair(before, before), "released": Pair(before, after),
        "retrained": Pair(known, known)}


def _fiducial(case: Case) -> tuple[Indices, dict[str, Pair]]:
    """Some windows a patient, since delineating takes a while."""
    bundles, rate = case.bundles, case.settings.profile.sampling_rate
    rows = np.concatenate([_some(case, part) for part in ("train", "test")])
    case.progress(f"delineating {2 * len(rows)} windows")
    before, after = (fiducial_features(version[rows], rate)
                     for version in (bundles.clean, bundles.released))
    train = np.flatnonzero(bundles.part[rows] == 0)
    patient = bundles.patient[rows]
    both = discriminate(np.concatenate([before, after]), np.tile(patient, 2), train)
    known = discriminate(after, patient, train)

    def whole(part: Windows) -> Windows:
        out = np.full((len(bundles.patient), part.shape[1]), np.nan, dtype=np.float32)
        out[rows] = part
        return out

    clean, released, known = whole(both[: len(rows)]), whole(both[len(rows):]), whole(known)
    return np.sort(rows), {"clean": Pair(clean, clean), "released": Pair(clean, released),
                           "retrained": Pair(known, known)}


def _some(case: Case, part: str) -> Indices:
    """At most `_FIDUCIAL` windows of each patient in a part, drawn by the run's seed."""
    bundles = case.bundles
    generator = np.random.default_rng(seed_from(case.settings, "auditor", "fiducial", part))
    rows = generator.permutation(bundles.released_rows(part))
    turn = np.zeros(len(rows), np.int64)
    for patient in np.unique(bundles.patient[rows]):
        own = np.flatnonzero(bundles.patient[rows] == patient)
        turn[own] = np.arange(len(own))
    return np.sort(rows[turn < _FIDUCIAL])


def _raw(case: Case) -> tuple[Indices, dict[str, Pair]]:
    """The samples themselves; nothing is learned, so "retrained" only has a released gallery."""
    before, after = (version.reshape(len(version), -1)
                     for version in (case.bundles.clean, case.bundles.released))
    return np.arange(len(before)), {"clean": Pair(before, before), "released": Pair(before, after),
                                    "retrained": Pair(after, after)}


# Each: rows that are embedded, and the pairs of `identification.attack`.
ENCODERS: dict[str, Callable[[Case], tuple[Indices, dict[str, Pair]]]] = {
    "classifier": _classifier, "metric": _metric, "fiducial": _fiducial, "raw": _raw}
