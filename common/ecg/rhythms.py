"""Beat times of a synthetic patient: sinus rhythm, fibrillation, ectopy, nodal runs.

A record is a chain of short cycles, and every cycle holds one episode of each rhythm that the
patient has. Episodes therefore lie in early, middle and late parts alike, so that a temporal
split never leaves a class out of its test part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CYCLE_SECONDS = 75.0  # below 15 % of the default 10 min: the last split holds a whole cycle
MIN_CYCLES = 3


class Rhythm(IntEnum):
    """What an episode is; ectopic episodes are sinus rhythm with ectopic beats in it."""

    SINUS = 0
    AFIB = 1
    PVC = 2
    SVE = 3
    NODAL = 4


class Beat(IntEnum):
    """What one beat is."""

    SINUS = 0
    AFIB = 1
    PVC = 2
    SVE = 3
    NODAL = 4


@dataclass(frozen=True)
class Episode:
    """One stretch of one rhythm, from `start` to `end` (s)."""

    start: float
    end: float
    rhythm: Rhythm


@dataclass(frozen=True)
class Timeline:
    """The beats of one record.

    Args:
        times: [beats] R-peak times, s, increasing.
        kinds: [beats] `Beat` codes.
        intervals: [beats] RR interval that precedes each beat, s.
        episodes: the rhythms, in order and without gaps.
        seconds: length of the record, s.
    """

    times: Floats
    kinds: Ints
    intervals: Floats
    episodes: tuple[Episode, ...]
    seconds: float


def draw_timeline(
    rng: np.random.Generator, seconds: float, shares: Mapping[Rhythm, float]
) -> Timeline:
    """Draw the beats of one record.

    Heart rate is drawn anew for every cycle and never depends on the patient: it must not
    identify anyone.

    Args:
        rng: source of randomness; the same state gives the same timeline.
        seconds: length of the record, s.
        shares: fraction of the record for each rhythm other than sinus; the rest is sinus.
    """
    episodes = _draw_episodes(rng, seconds, shares)
    knots = np.arange(0.0, seconds + 2 * CYCLE_SECONDS, CYCLE_SECONDS / 2)
    base_rr = rng.uniform(0.68, 1.02, len(knots))
    clock, times, kinds, intervals = -rng.uniform(0.0, 0.6), [], [], []
    for episode in episodes:
        base = float(np.interp((episode.start + episode.end) / 2, knots, base_rr))
        count = int(2.5 * (episode.end - clock) / base) + 8
        rr, kind = _draw_intervals(rng, episode.rhythm, count, base)
        beats = clock + np.cumsum(rr)
        keep = beats < episode.end
        times.append(beats[keep])
        kinds.append(kind[keep])
        intervals.append(rr[keep])
        clock = float(beats[keep][-1]) if keep.any() else clock
    beats = np.concatenate(times)
    inside = beats > 0.05
    return Timeline(
        beats[inside],
        np.concatenate(kinds)[inside],
        np.concatenate(intervals)[inside],
        tuple(episodes),
        seconds,
    )


def _draw_episodes(
    rng: np.random.Generator, seconds: float, shares: Mapping[Rhythm, float]
) -> list[Episode]:
    """The order is drawn once per record, so that any stretch of a cycle's length has it all."""
    cycles = max(MIN_CYCLES, round(seconds / CYCLE_SECONDS))
    cycle = seconds / cycles
    every = {Rhythm.SINUS: 1.0 - sum(shares.values()), **shares}
    order = [list(every)[i] for i in rng.permutation(len(every))]
    phase = cycle * rng.random()  # no rhythm prefers the ends of records
    episodes: list[Episode] = []
    for number in range(cycles + 1):
        sizes = np.array([every[r] for r in order]) * rng.uniform(0.8, 1.2, len(order))
        ends = (number + np.cumsum(sizes) / sizes.sum()) * cycle - phase
        for rhythm, end in zip(order, ends.tolist(), strict=True):
            start = episodes[-1].end if episodes else 0.0
            if end > start and start < seconds:
                episodes.append(Episode(start, min(end, seconds), rhythm))
    return episodes


def _draw_intervals(
    rng: np.random.Generator, rhythm: Rhythm, count: int, base: float
) -> tuple[Floats, Ints]:
    """RR intervals (s) and beat codes of one episode, [count] each."""
    if rhythm is Rhythm.AFIB:
        rr = 0.85 * base * rng.gamma(1 / 0.25**2, 0.25**2, count)  # coefficient of variation 0.25
        return np.clip(rr, 0.32, 1.9), np.full(count, Beat.AFIB, np.int64)
    if rhythm is Rhythm.NODAL:  # the atrioventricular node is slower than the sinus, and regular
        rr = 1.2 * base * (1 + 0.008 * rng.standard_normal(count))
        return rr, np.full(count, Beat.NODAL, np.int64)
    rr = base * (1 + _variability(rng, count, base))
    kinds = np.full(count, Beat.SINUS, np.int64)
    if rhythm is Rhythm.SINUS:
        return rr, kinds
    if rhythm is Rhythm.PVC:
        early, total, kind = rng.uniform(0.55, 0.7, count), 2.0, Beat.PVC
    else:  # a supraventricular beat resets the sinus node: the pause does not compensate
        early, total, kind = rng.uniform(0.58, 0.72, count), 1.75, Beat.SVE
    places = 1 + np.cumsum(rng.integers(3, 6, count)) - rng.integers(2, 4)
    places = places[places < count - 1]
    rr[places] *= early[places]
    rr[places + 1] *= total - early[places]
    kinds[places] = kind
    return rr, kinds


def _variability(rng: np.random.Generator, count: int, base: float) -> Floats:
    """Relative deviation of sinus RR: respiratory, low-frequency and slow parts, [count]."""
    clock = base * np.arange(count)
    respiratory = 0.03 * np.sin(2 * np.pi * (rng.uniform(0.18, 0.32) * clock + rng.random()))
    low = 0.018 * np.sin(2 * np.pi * (rng.uniform(0.07, 0.12) * clock + rng.random()))
    slow = lfilter([0.008], [1.0, -0.9], rng.standard_normal(count))
    noise = 0.006 * rng.standard_normal(count)
    return np.asarray(respiratory + low + slow + noise, dtype=np.float64)
