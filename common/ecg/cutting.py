"""One record, cut: checked, resampled, windowed and normalized."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from common.ecg.beats import Beats, beats_in, no_beats
from common.ecg.demographics import demographics_of
from common.ecg.hospital_file import HospitalFile
from common.ecg.labels import label_windows
from common.ecg.quality import REASONS, bad_samples, out_of_range
from common.ecg.records import read_record
from common.errors import InputError, RecordError


@dataclass(frozen=True)
class WindowSettings:
    """How windows are cut.

    Args:
        sampling_rate: Hz.
        seconds: length of a window.
        reserved: share of patients that no training sees.
        seed: of the draw of these.
        checked: leave out what is no good ECG (`quality`); else only what is missing or flat, as of
            a release, which an attacker takes as it is.
    """

    sampling_rate: int
    seconds: float
    reserved: float
    seed: int
    checked: bool = True

    def __post_init__(self) -> None:
        if not 50 <= self.sampling_rate <= 1000:
            raise InputError(f"sampling_rate is {self.sampling_rate}; allowed is 50 to 1000 Hz")
        if not 2 <= self.seconds <= 60:
            raise InputError(f"seconds is {self.seconds}; allowed is 2 to 60 s")
        if not 0 <= self.reserved <= 0.5:
            raise InputError(f"reserved is {self.reserved}; allowed is 0 to 0.5")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; allowed is 0 or more")

    @property
    def length(self) -> int:
        """Samples in a window."""
        return round(self.sampling_rate * self.seconds)


@dataclass(frozen=True)
class Cut:
    """What one record gave; its windows lie in a part file. `error`: why it is left out."""

    starts: NDArray[np.float64]  # s, of the windows kept
    labels: tuple[NDArray[np.uint8], NDArray[np.uint8]]  # strict, paper
    beats: Beats
    person: tuple[int, float]  # sex, age in years
    record_seconds: float
    leads: tuple[str, ...]  # names, as the record has them
    skipped: dict[str, int]  # windows skipped, by reason
    bad_seconds: dict[str, float]  # of the record, by reason; a second may have several
    uncalibrated: bool
    error: str = ""

    def save(self, file: Path) -> None:
        """Write the cut beside its part."""
        plain = {"person": self.person, "record_seconds": self.record_seconds,
                 "leads": self.leads, "skipped": self.skipped, "bad_seconds": self.bad_seconds,
                 "uncalibrated": self.uncalibrated, "error": self.error}
        np.savez(file, starts=self.starts, strict=self.labels[0], paper=self.labels[1],
                 plain=np.array(json.dumps(plain)), first=self.beats.first, time=self.beats.time,
                 kind=self.beats.kind)

    @classmethod
    def load(cls, file: Path) -> Cut:
        """Read a cut.

        Raises:
            OSError, ValueError, KeyError, BadZipFile: there is none, or half of one.
        """
        saved = np.load(file)
        plain = json.loads(str(saved["plain"]))
        sex, age = plain.pop("person")
        return cls(saved["starts"], (saved["strict"], saved["paper"]),
                   Beats(saved["first"], saved["time"], saved["kind"]), (sex, age),
                   **{**plain, "leads": tuple(plain["leads"])})


def cut_record(hospital: HospitalFile, record: str, part: Path, settings: WindowSettings) -> Cut:
    """Write a record's usable windows to `part`, float32 [n, leads, length] in [0, 1].

    A record that cannot be read or gives no window is no exception: its `Cut` says why.

    Raises:
        InputError: `part` cannot be written.
    """
    try:
        return _cut(hospital, record, part, settings)
    except RecordError as error:
        nothing = np.zeros(0, np.uint8)
        return Cut(np.zeros(0), (nothing, nothing), no_beats(0), (-1, np.nan), 0.0, (), {}, {},
                   False, str(error))


def _cut(hospital: HospitalFile, record: str, part: Path, settings: WindowSettings) -> Cut:
    read = read_record(hospital, record)
    rate, seconds = read.sampling_rate, settings.length / settings.sampling_rate
    duration = read.signal.shape[1] / rate
    if duration + 1e-9 < seconds:
        raise RecordError(f"record {record}: length is {duration:g} s; allowed is {seconds:g} s "
                          "(a window) or more")  # fmt: skip
    bad = bad_samples(read)
    if not settings.checked:
        bad = {name: mask for name, mask in bad.items() if name == "missing"}
    resampled = _resample(read.signal, bad, rate, settings.sampling_rate)
    count = min(int(duration / seconds + 1e-9), resampled.shape[1] // settings.length)
    starts = np.arange(count) * seconds
    cut = resampled[:, : count * settings.length].reshape(len(resampled), count, settings.length)
    low, high = cut.min(axis=2, keepdims=True), cut.max(axis=2, keepdims=True)  # [leads, n, 1]
    reason = np.full(count, "", dtype=object)
    wrong = out_of_range(low, high) if settings.checked else low == high
    reason[wrong.any(axis=(0, 2))] = REASONS[-1] if settings.checked else "flat"
    for name in reversed(bad):
        reason[_touched(bad[name], rate, starts, seconds)] = name
    keep = reason == ""
    windows = cut[:, keep]
    windows -= low[:, keep]
    windows /= (high - low)[:, keep]
    _write(part, windows.swapaxes(0, 1))
    labels = label_windows(read.annotations, rate, starts[keep], seconds, hospital.labels)
    beats = beats_in(read.annotations, rate, starts[keep], seconds)
    person = demographics_of(hospital, record, read.comments)
    skipped = {name: found for name in REASONS if (found := int((reason == name).sum()))}
    error = "" if keep.any() else f"record {record}: none of {count} windows is usable: {skipped}"
    return Cut(starts[keep], labels, beats, person, duration, read.leads, skipped,
               {name: float(mask.sum()) / rate for name, mask in bad.items()}, read.uncalibrated,
               error)


def _write(part: Path, windows: NDArray[np.float32]) -> None:
    try:
        windows.astype("<f4", copy=False).tofile(part)
    except OSError as error:
        raise InputError(f"store is '{part.parent}'; it cannot be written: {error}") from None


def _resample(
    signal: NDArray[np.float64], bad: Mapping[str, NDArray[np.bool_]], rate: float, target: int
) -> NDArray[np.float32]:
    """The leads at `target` Hz; missing and flat stretches are bridged, as no filter should see
    them; the others are real samples.
    """
    ratio = Fraction(target) / Fraction(rate).limit_denominator(1000)
    filled = signal.astype(np.float32)  # half the memory; 24 bits hold any converter's samples
    bridged = [mask for reason, mask in bad.items() if reason in ("missing", "flat")]
    if bridged:
        mask, at = np.any(bridged, axis=0), np.arange(signal.shape[1])
        for row in filled:
            row[mask] = 0.0 if mask.all() else np.interp(at[mask], at[~mask], row[~mask])
    if ratio == 1:
        return filled
    up, down = ratio.numerator, ratio.denominator
    return np.asarray(resample_poly(filled, up, down, axis=1, padtype="line"), dtype=np.float32)


def _touched(
    bad: NDArray[np.bool_], rate: float, starts: NDArray[np.float64], seconds: float
) -> NDArray[np.bool_]:
    """Windows that hold a bad sample, [n]."""
    total = np.concatenate([[0], np.cumsum(bad)])
    first = np.floor(starts * rate + 1e-6).astype(int)
    last = np.minimum(np.ceil((starts + seconds) * rate - 1e-6).astype(int), len(bad))
    return np.asarray(total[last] > total[first])
