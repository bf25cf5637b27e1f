"""Who is it? Closed-set classification, and identification by nearest neighbour.

Source: the biometric literature's identification rate: cosine nearest neighbour of a probe among
enrolled windows, galleries and probes never from the same moment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.results import Estimate, mean_estimate

Ints = NDArray[np.int64]
SESSION_GAP = 256.0  # s between starts: four minutes between windows of up to 16 s


def closed_set(scores: NDArray[np.float64], identity: Ints, patient: Ints) -> Estimate:
    """Share of windows whose highest score is their own patient's.

    Args:
        scores: [n, patients].
        identity: column of the right patient, [n]; -1 (not enrolled) takes no part.
        patient: whose window it is, [n]; heads of different hospitals use the same columns.
    """
    known = identity >= 0
    hit = scores[known].argmax(1) == identity[known] if known.any() else np.array([])
    return mean_estimate(hit, patient[known], chance=1 / scores.shape[1])


def protocols(patient: Ints, record: Ints, start: NDArray[np.float64], gallery: Ints,
              probe: Ints) -> dict[str, tuple[Ints, Ints]]:
    """Gallery and probe rows of each protocol that the recordings allow.

    "different records" takes the probes whose record has no gallery window. Patients without any
    are probed in the "same session", at least four minutes after their last gallery window.

    Args:
        patient: of each window, [n].
        record: of each window, [n].
        start: of each window in its record, s, [n].
        gallery: rows that may be enrolled.
        probe: rows that may be probes.
    """
    enrolled = set(zip(patient[gallery], record[gallery], strict=True))
    other = np.array([key not in enrolled
                      for key in zip(patient[probe], record[probe], strict=True)], dtype=bool)
    single = ~np.isin(patient[probe], patient[probe][other])
    first: dict[tuple[int, int], float] = {}
    for row in probe[single]:
        key = (int(patient[row]), int(record[row]))
        first[key] = min(first.get(key, np.inf), float(start[row]))
    # Enrolment stops early enough that no probe is near: cut the gallery, not the probes.
    far = np.array([start[row] <= first.get((int(patient[row]), int(record[row])), np.inf)
                    - SESSION_GAP for row in gallery], dtype=bool)
    found = {"different records": (gallery, probe[other]),
             "same session": (gallery[far], probe[single])}
    return {name: rows for name, rows in found.items() if len(rows[1])}


def identification_rate(gallery: NDArray[np.float32], gallery_patient: Ints,
                        probe: NDArray[np.float32], probe_patient: Ints) -> Estimate:
    """Top-1 rate by cosine similarity; probes of patients who are not enrolled take no part.

    Args:
        gallery: embeddings [m, d] of enrolled windows.
        gallery_patient: [m].
        probe: embeddings [n, d] of released windows.
        probe_patient: [n].
    """
    enrolled = np.unique(gallery_patient)
    kept = np.isin(probe_patient, enrolled)
    if not kept.any():
        return Estimate(float("nan"), float("nan"), float("nan"), 0, None)
    a = gallery / (np.linalg.norm(gallery, axis=1, keepdims=True) + 1e-12)
    b = probe[kept] / (np.linalg.norm(probe[kept], axis=1, keepdims=True) + 1e-12)
    nearest = gallery_patient[(b @ a.T).argmax(1)]
    return mean_estimate(nearest == probe_patient[kept], probe_patient[kept],
                         chance=1 / len(enrolled))
