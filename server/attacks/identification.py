"""Embeddings of windows: whose is the nearest enrolled one, and which sex and age do they tell?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from common.audits.matching import Matches, match
from common.audits.probing import linear_probe
from common.audits.reidentification import (
    by_gallery_size,
    cumulative_match,
    identification_rate,
    protocols,
)
from common.audits.verification import verification
from common.protocol import AGE_BANDS, SEXES
from common.results import Estimate
from common.training import Indices, seed_from
from server.attacks.case import Case
from server.attacks.embeddings import ENCODERS, Pair


def attack(case: Case) -> dict[str, Any]:
    """{protocol: {encoder: {pair: measures}}} of each protocol that the recordings allow.

    Pairs: "clean" probes or "released" ones against a clean gallery, by an encoder that knows
    clean windows only; and "retrained": released against released, by one that knows both.
    Measures are `measures`, and sex and age of `linear_probe`.
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
                case.progress(f"probing {encoder} embeddings, {protocol}, {name}")
                told = _attributes(case, pair, enrolled, probes)
                if encoder == "classifier":  # which has learned everybody's sex and age
                    told = {kind: {"enrolled": tree["enrolled"]} for kind, tree in told.items()}
                found.setdefault(protocol, {}).setdefault(encoder, {})[name] = {
                    **measures(matches), **told}
    return found


def measures(matches: Matches) -> dict[str, Any]:
    """Identification and verification figures of one comparison."""
    return {"top1": identification_rate(matches), "top5": identification_rate(matches, 5),
            "cmc": cumulative_match(matches), "by_gallery_size": by_gallery_size(matches),
            "enrolled": matches.enrolled, **verification(matches)}


def _attributes(case: Case, pair: Pair, enrolled: Indices,
                probes: Indices) -> Mapping[str, Mapping[str, Estimate]]:
    """{sex or age: {enrolled or strangers: accuracy}}."""
    bundles, seed = case.bundles, seed_from(case.settings, "auditor", "probe") % 2**32
    return {name: linear_probe(
        pair.enrolled[enrolled], label[enrolled], bundles.patient[enrolled],
        pair.probes[probes], label[probes], bundles.patient[probes], classes, seed)
        for name, label, classes in (("sex", bundles.sex, len(SEXES)),
                                     ("age", bundles.age, len(AGE_BANDS)))}
