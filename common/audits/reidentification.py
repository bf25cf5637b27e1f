"""Who is it? Closed-set classification, and identification by nearest neighbour.

Source: the biometric literature's identification rate: cosine nearest neighbour of a probe among
enrolled windows, galleries and probes never from the same moment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from common.audits.matching import Matches
from common.results import Estimate, mean_estimate

Ints = NDArray[np.int64]
SESSION_GAP = 256.0  # s between starts: four minutes between windows of up to 16 s
_GAPS = (("same day", 0.0), ("1-30 days", 30.0), ("over 30 days", np.inf))


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


def protocols(patient: Ints, record: Ints, start: NDArray[np.float64], gallery: Ints, probe: Ints,
              day: Ints | None = None) -> dict[str, tuple[Ints, Ints]]:
    """Gallery and probe rows of each protocol that the recordings allow, the easiest first.

    Probes whose record has no gallery window are of "different records", or, where days are known,
    of the "same day", "1-30 days" or "over 30 days" after the patient's last enrolled record.
    Patients without any are probed in the "same session", at least four minutes after their last
    gallery window.

    Args:
        patient: of each window, [n].
        record: of each window, [n].
        start: of each window in its record, s, [n].
        gallery: rows that may be enrolled.
        probe: rows that may be probes.
        day: of each window's record, in days from any origin, [n]; -1 where unknown.
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
    apart = _days_apart(patient, day, gallery, probe[other])
    found = {"same session": (gallery[far], probe[single]),
             **{name: (gallery, probe[other][apart == name])
                for name in (*(name for name, _ in _GAPS), "different records")}}
    return {name: rows for name, rows in found.items() if len(rows[0]) and len(rows[1])}


def _days_apart(patient: Ints, day: Ints | None, gallery: Ints, probe: Ints) -> NDArray[np.str_]:
    """How long after the patient's last enrolled day each probe is: a name of `_GAPS`, [n]."""
    names = np.full(len(probe), "different records", dtype="<U17")
    if day is None:
        return names
    known = gallery[day[gallery] >= 0]
    last = np.full(int(patient.max(initial=0)) + 1, -1)
    np.maximum.at(last, patient[known], day[known])
    gap = np.abs(day[probe] - last[patient[probe]])
    dated = (day[probe] >= 0) & (last[patient[probe]] >= 0)
    for name, most in reversed(_GAPS):
        names[dated & (gap <= most)] = name
    return names


def halves(patient: Ints, record: Ints, seed: int = 0) -> Ints:
    """Each patient's recordings divided at random: 0 in the gallery, 1 a probe, -1 neither, [n].

    Patients with one recording can be in no gallery but their own probe's, and are left out.
    Source: "Biometric leakage and re-identification from physiological signals", Listing 34.4,
    whose draws these are.

    Args:
        patient: of each window, [n].
        record: of each window, [n]; a recording lies in one half.
        seed: of the draws.
    """
    half = np.full(len(patient), -1, dtype=np.int64)
    generator = np.random.default_rng(seed)
    for who in np.unique(patient):
        own = np.unique(record[patient == who])
        if len(own) > 1:
            generator.shuffle(own)
            half[patient == who] = 1
            half[(patient == who) & np.isin(record, own[: len(own) // 2])] = 0
    return half


def identification_rate(matches: Matches, k: int = 1) -> Estimate:
    """Share of probes whose patient is among the k nearest.

    Args:
        matches: of the probes with the enrolled windows.
        k: at least 1.
    """
    if not len(matches.rank):
        return Estimate(float("nan"), float("nan"), float("nan"), 0, None)
    return mean_estimate(matches.rank < k, matches.patient,
                         chance=min(1.0, k / matches.enrolled))


def cumulative_match(matches: Matches, most: int = 20) -> list[float]:
    """Identification rate for k = 1, 2, ... up to `most` or the patients enrolled."""
    ranks = np.bincount(matches.rank, minlength=most)[: min(most, matches.enrolled)]
    share: list[float] = (ranks.cumsum() / max(1, len(matches.rank))).tolist()
    return share


def by_gallery_size(matches: Matches) -> dict[int, Estimate]:
    """Top-1 identification rate in galleries of the own patient and others drawn at random.

    Exact, without drawing: with r of the P - 1 others nearer than the own patient, none of them is
    among s - 1 drawn with probability C(P - 1 - r, s - 1) / C(P - 1, s - 1).

    Returns:
        {s: estimate} for s = 2, 5, 10, 20, 50, ... and P.
    """
    others, rank = matches.enrolled - 1, matches.rank
    steps = [2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000, 100_000]
    found = {}
    for size in [s for s in steps if s <= others] + [others + 1]:
        with np.errstate(invalid="ignore"):
            log = (_log_choose(others - rank, size - 1) - _log_choose(others, size - 1))
        chance_of_none = np.where(others - rank >= size - 1, np.exp(log), 0.0)
        found[size] = mean_estimate(chance_of_none, matches.patient, chance=1 / size)
    return found


def _log_choose(n: Ints | int, k: int) -> NDArray[np.float64]:
    """log C(n, k); of no meaning where n < k."""
    return np.asarray(gammaln(np.asarray(n) + 1.0) - gammaln(k + 1.0)
                      - gammaln(np.maximum(np.asarray(n) - k, 0) + 1.0))
