"""Nearest enrolled window: clean probes, released probes, and released against released.

Each way to embed a window is an attacker of its own: the classifier before its head, a network
trained for nothing but similarity, and hand-made features, which need no training on waveforms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.audits.fiducial import discriminate, fiducial_features
from common.audits.matching import Matches, match
from common.audits.reidentification import (
    by_gallery_size,
    cumulative_match,
    identification_rate,
    protocols,
)
from common.audits.verification import verification
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


def attack(case: Case) -> dict[str, Any]:
    """{protocol: {encoder: {pair: measures}}} of each protocol that the recordings allow.

    Pairs: "clean" probes or "released" ones against a clean gallery, by an encoder that knows
    clean windows only; and "retrained": released against released, by one that knows both.
    """
    bundles = case.bundles
    found: dict[str, Any] = {}
    parts = protocols(bundles.patient, bundles.record, bundles.start, bundles.rows("train"),
                      bundles.released_rows("test"), bundles.day)
    for encoder in case.settings.audit.encoders:
        chosen, pairs = ENCODERS[encoder](case)
        for protocol, rows in parts.items():
            probes = np.intersect1d(rows[1], chosen)
            for name, pair in pairs.items():
                enrolled = np.intersect1d(rows[0], chosen)
                if name == "retrained":
                    enrolled = np.intersect1d(enrolled, bundles.released_rows("train"))
                matches = match(pair.enrolled[enrolled], bundles.patient[enrolled],
                                pair.probes[probes], bundles.patient[probes])
                found.setdefault(protocol, {}).setdefault(encoder, {})[name] = measures(matches)
    return found


def measures(matches: Matches) -> dict[str, Any]:
    """Identification and verification figures of one comparison."""
    return {"top1": identification_rate(matches), "top5": identification_rate(matches, 5),
            "cmc": cumulative_match(matches), "by_gallery_size": by_gallery_size(matches),
            "enrolled": matches.enrolled, **verification(matches)}


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


ENCODERS = {"classifier": _classifier, "metric": _metric, "fiducial": _fiducial}
