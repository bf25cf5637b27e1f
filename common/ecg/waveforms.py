"""The shape of a synthetic patient's beats: Gaussian waves of a dipole, seen by leads.

After McSharry et al. (IEEE TBME 50(3), 2003) and Sameni et al. (EURASIP JASP, 2007), a beat is
a sum of Gaussian waves. Each wave has a direction in the body (x left, y down, z front), and a
lead is a projection, so that all leads of a patient show the same beats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.ecg.rhythms import Beat, Rhythm, Timeline

Floats = NDArray[np.float64]

# name: (dipole x, y, z in mV; time after the R peak, s; sigma, s; spread of direction, mV)
_WAVES: dict[str, tuple[tuple[float, float, float], float, float, float]] = {
    "P": ((0.06, 0.11, 0.03), -0.165, 0.020, 0.03),
    "Q": ((-0.08, -0.05, 0.16), -0.030, 0.009, 0.07),
    "R": ((0.80, 0.85, -0.15), 0.000, 0.011, 0.26),
    "S": ((-0.12, -0.20, -0.45), 0.030, 0.012, 0.17),
    "R'": ((0.02, 0.02, 0.04), 0.055, 0.011, 0.08),
    "ST": ((0.03, 0.03, 0.03), 0.120, 0.045, 0.03),
    "T1": ((0.09, 0.10, 0.06), 0.225, 0.045, 0.06),
    "T2": ((0.18, 0.20, 0.10), 0.285, 0.034, 0.08),
    "P'": ((-0.05, -0.09, 0.04), -0.125, 0.016, 0.03),  # ectopic atrial focus
    "retrograde P": ((-0.03, -0.08, 0.00), 0.100, 0.016, 0.02),
    "V1": ((0.55, 0.95, 0.00), -0.010, 0.036, 0.20),
    "V2": ((-0.30, -0.45, 0.00), 0.075, 0.032, 0.15),
    "VT": ((-0.20, -0.32, 0.00), 0.300, 0.058, 0.06),
}
_NARROW = ("Q", "R", "S", "R'", "ST", "T1", "T2")
_WAVES_OF: dict[Beat, tuple[str, ...]] = {
    Beat.SINUS: ("P", *_NARROW),
    Beat.AFIB: _NARROW,
    Beat.PVC: ("V1", "V2", "VT"),
    Beat.SVE: ("P'", *_NARROW),
    Beat.NODAL: ("retrograde P", *_NARROW),
}
_REPOLARISATION = ("ST", "T1", "T2", "VT")

# Directions of the independent electrodes; III, AVR, AVL and AVF follow from I and II.
_LEADS: dict[str, tuple[float, float, float]] = {
    "I": (1.00, 0.00, 0.00),
    "II": (0.50, 0.87, 0.00),
    "V1": (-0.50, 0.10, 0.95),
    "V2": (0.10, 0.10, 1.25),
    "V3": (0.60, 0.15, 1.05),
    "V4": (1.00, 0.25, 0.70),
    "V5": (1.10, 0.30, 0.20),
    "V6": (0.95, 0.30, -0.10),
    "MLII": (0.55, 0.85, 0.05),
    "ECG1": (0.60, 0.80, 0.10),
    "ECG2": (-0.15, 0.30, 0.95),
    "CC5": (1.05, 0.25, 0.25),
    "NASA": (0.05, 0.95, 0.40),
}


@dataclass(frozen=True)
class Morphology:
    """One patient's beats.

    Args:
        dipoles: [waves, 3] peak of each wave, mV.
        times: [waves] centre after the R peak, s, at an RR interval of 0.85 s.
        sigmas: [waves] Gaussian width, s.
        electrodes: [electrodes, 3] direction of each independent lead.
        fibrillation: [3] amplitude of the fibrillatory waves, mV.
    """

    dipoles: Floats
    times: Floats
    sigmas: Floats
    electrodes: Floats
    fibrillation: Floats


def draw_morphology(
    rng: np.random.Generator, age: float, sex: str, bundle_branch_block: str = ""
) -> Morphology:
    """Draw a patient, wide enough apart from the others to be told from them.

    Women get a longer QT and a lower T wave, age a longer P wave, a lower T wave and an axis to
    the left. The shifts are about as large as the spread between patients, hence learnable but
    never certain.

    Args:
        rng: source of randomness.
        age: years.
        sex: "M" or "F".
        bundle_branch_block: "", "L" or "R".
    """
    names = list(_WAVES)
    spread = np.array([_WAVES[n][3] for n in names])[:, None]  # (waves, 1)
    dipoles = np.array([_WAVES[n][0] for n in names])
    dipoles = dipoles + spread * rng.standard_normal(dipoles.shape)
    dipoles *= np.exp(0.15 * rng.standard_normal((len(names), 1)))
    times = np.array([_WAVES[n][1] for n in names])
    times = times * (1 + 0.07 * rng.standard_normal(len(names)))
    sigmas = np.array([_WAVES[n][2] for n in names])
    sigmas = sigmas * np.exp(0.13 * rng.standard_normal(len(names)))
    ectopic = [names.index(n) for n in ("V1", "V2", "VT")]
    dipoles[ectopic] *= rng.choice([-1.0, 1.0])  # the focus lies at the base or at the apex
    _shift_by_sex_and_age(rng, names, dipoles, times, sigmas, age, sex)
    _block_bundle(names, dipoles, times, sigmas, bundle_branch_block)

    electrodes = np.array(list(_LEADS.values()))
    # Height alone must not identify: it is a gain, and windows are scaled to [0, 1] anyway.
    main = np.array([_LEADS["II"], _LEADS["V5"]]) @ dipoles[names.index("R")]
    dipoles *= np.clip(1.1 / np.sqrt(np.mean(main**2)), 0.5, 2.0)
    electrodes = electrodes + 0.10 * rng.standard_normal(electrodes.shape)
    fibrillation = np.array([0.02, 0.05, 0.06]) * np.exp(0.25 * rng.standard_normal(3))
    return Morphology(dipoles, times, sigmas, electrodes, fibrillation)


def of_another_population(morphology: Morphology, shift: float) -> Morphology:
    """A patient whose population differs from the one the tables above describe.

    At shift 1 the P wave comes 12 % earlier, waves of the ventricles are 25 % wider and ectopic
    ones 20 % narrower, T waves are 40 % lower and electrodes sit some 20 degrees off: what a
    network learned of the first population holds less for the second.

    Args:
        morphology: drawn for the first population.
        shift: 0 (the same) to 1.
    """
    names = list(_WAVES)
    atrial, narrow = [names.index(n) for n in ("P", "P'")], [names.index(n) for n in _NARROW]
    ectopic = [names.index(n) for n in ("V1", "V2", "VT")]
    repolarisation = [names.index(n) for n in ("T1", "T2", "VT")]
    dipoles, times, sigmas = (part.copy() for part in (
        morphology.dipoles, morphology.times, morphology.sigmas))
    times[atrial] *= 1 + 0.12 * shift
    sigmas[narrow] *= 1 + 0.25 * shift
    sigmas[ectopic] *= 1 - 0.20 * shift
    dipoles[repolarisation] *= 1 - 0.40 * shift
    turn = 0.35 * shift  # rad, in the horizontal plane
    turned = morphology.electrodes.copy()
    turned[:, 0] = np.cos(turn) * morphology.electrodes[:, 0] \
        - np.sin(turn) * morphology.electrodes[:, 2]
    turned[:, 2] = np.sin(turn) * morphology.electrodes[:, 0] \
        + np.cos(turn) * morphology.electrodes[:, 2]
    return Morphology(dipoles, times, sigmas, turned, morphology.fibrillation)


def _shift_by_sex_and_age(
    rng: np.random.Generator,
    names: list[str],
    dipoles: Floats,
    times: Floats,
    sigmas: Floats,
    age: float,
    sex: str,
) -> None:
    """Move the waves in place; what all waves of repolarisation share is drawn here too."""
    repolarisation = [names.index(n) for n in ("ST", "T1", "T2")]
    atrial, r_wave = names.index("P"), names.index("R")
    older, female = (age - 58) / 16, (1.0 if sex == "F" else -1.0)
    times[repolarisation] *= 1 + 0.05 * rng.standard_normal() + 0.045 * female
    dipoles[repolarisation] *= np.exp(0.15 * rng.standard_normal() - 0.14 * female - 0.06 * older)
    dipoles[r_wave] *= np.exp(-0.07 * female)
    sigmas[atrial] *= np.exp(0.07 * older)
    times[atrial] -= 0.005 * older
    turn = 0.13 * older  # rad, in the frontal plane
    x, y = dipoles[r_wave, 0], dipoles[r_wave, 1]
    dipoles[r_wave, 0] = np.cos(turn) * x + np.sin(turn) * y
    dipoles[r_wave, 1] = np.cos(turn) * y - np.sin(turn) * x


def _block_bundle(
    names: list[str], dipoles: Floats, times: Floats, sigmas: Floats, side: str
) -> None:
    """Widen the ventricular waves in place, as a blocked left or right bundle does."""
    if side == "":
        return
    late, r_wave, s_wave = names.index("R'"), names.index("R"), names.index("S")
    if side == "L":  # broad and notched to the left, no septal q, discordant T
        sigmas[[r_wave, s_wave, late]] *= 1.9
        dipoles[names.index("Q")] = 0.0
        dipoles[late] += 0.5 * dipoles[r_wave]
        for wave in ("T1", "T2"):
            dipoles[names.index(wave)] *= -0.8
    else:  # the right ventricle follows late: R' in V1, slurred S at the left
        dipoles[late] += np.array([-0.35, -0.05, 0.65])
        sigmas[[s_wave, late]] *= 1.7
    times[late] += 0.015


def lead_directions(morphology: Morphology, leads: Sequence[str]) -> Floats:
    """The patient's directions of the named leads, [leads, 3]; limb leads obey Einthoven."""
    of = dict(zip(_LEADS, morphology.electrodes, strict=True))
    one, two = of["I"], of["II"]
    of |= {"III": two - one, "AVR": -(one + two) / 2}
    of |= {"AVL": one - two / 2, "AVF": two - one / 2}
    return np.stack([of[lead] for lead in leads])


def render(
    morphology: Morphology,
    timeline: Timeline,
    sampling_rate: float,
    leads: Sequence[str],
    rng: np.random.Generator,
) -> Floats:
    """The clean signal of a record, [leads, samples] in mV.

    Args:
        morphology: the patient.
        timeline: the beats of this record.
        sampling_rate: Hz.
        leads: names, e.g. ("MLII", "V5").
        rng: draws what varies from beat to beat, the drift and the respiration.
    """
    samples = round(timeline.seconds * sampling_rate)
    clock = np.arange(samples) / sampling_rate
    heart = np.zeros((3, samples))
    for index, name in enumerate(_WAVES):
        wave = _wave_train(morphology, index, name, timeline, sampling_rate, rng)
        heart += morphology.dipoles[index][:, None] * wave  # (3, 1) * (samples,)
    breath = np.sin(2 * np.pi * (rng.uniform(0.2, 0.3) * clock + rng.random()))
    heart *= 1 + rng.uniform(0.01, 0.05, (3, 1)) * breath
    heart += morphology.fibrillation[:, None] * _fibrillation(timeline, clock, rng)
    return lead_directions(morphology, leads) @ heart


def _wave_train(
    morphology: Morphology,
    index: int,
    name: str,
    timeline: Timeline,
    sampling_rate: float,
    rng: np.random.Generator,
) -> Floats:
    """Unit Gaussians of one wave at all beats that have it, [samples]."""
    samples = round(timeline.seconds * sampling_rate)
    having = np.isin(timeline.kinds, [kind for kind, of in _WAVES_OF.items() if name in of])
    beats = timeline.times[having]  # (beats,)
    stretch = np.ones(len(beats))
    if name in _REPOLARISATION:  # the QT interval follows the RR interval, less than linearly
        stretch = np.clip(timeline.intervals[having] / 0.85, 0.5, 1.6) ** 0.35
    centres = beats + morphology.times[index] * stretch + 0.0012 * rng.standard_normal(len(beats))
    sigmas = morphology.sigmas[index] * (1 + 0.02 * rng.standard_normal(len(beats)))
    drift = np.sin(2 * np.pi * (beats / rng.uniform(180, 900) + rng.random()))
    heights = 1 + 0.035 * rng.standard_normal(len(beats)) + 0.05 * drift

    half = int(np.ceil(4.5 * morphology.sigmas[index] * sampling_rate))
    at = np.rint(centres * sampling_rate).astype(np.int64)[:, None] + np.arange(-half, half + 1)
    offsets = at / sampling_rate - centres[:, None]  # (beats, 2 half + 1)
    values = heights[:, None] * np.exp(-0.5 * (offsets / sigmas[:, None]) ** 2)
    inside = (at >= 0) & (at < samples)
    train = np.bincount(at[inside], values[inside], minlength=samples)
    return np.asarray(train, dtype=np.float64)


def _fibrillation(timeline: Timeline, clock: Floats, rng: np.random.Generator) -> Floats:
    """Fibrillatory waves of unit size, 4.5 to 8 Hz, silent outside fibrillation, [samples]."""
    knots = np.arange(0.0, timeline.seconds + 1.0, 0.5)
    rate = rng.uniform(5.2, 7.2) + 0.4 * rng.standard_normal(len(knots))
    phase = 2 * np.pi * np.interp(clock, knots, np.cumsum(rate) * 0.5)
    size = np.interp(clock, knots, np.clip(1 + 0.3 * rng.standard_normal(len(knots)), 0.3, 1.8))
    active = np.zeros(len(clock))
    for episode in timeline.episodes:
        if episode.rhythm is Rhythm.AFIB:
            rise = np.minimum(clock - episode.start, episode.end - clock) / 0.3
            active = np.maximum(active, np.clip(rise, 0.0, 1.0))
    return size * active * (np.sin(phase) + 0.35 * np.sin(2 * phase + 0.8))
