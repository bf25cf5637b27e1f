"""One record, cut: checked for gaps and flat stretches, resampled, windowed and normalized."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from common.ecg.demographics import demographics_of
from common.ecg.hospital_file import HospitalFile
from common.ecg.labels import label_windows
from common.ecg.records import read_record
from common.errors import InputError, RecordError

_LOW, _HIGH = 0.05, 20.0  # mV, allowed peak-to-peak of a window
_FLAT = 1.0  # s of one constant value


@dataclass(frozen=True)
class WindowSettings:
    """Sampling rate (Hz) and length (s) of windows, share of reserved patients, and seed."""

    sampling_rate: int
    seconds: float
    reserved: float
    seed: int

    @property
    def length(self) -> int:
        """Samples in a window."""
        return round(self.sampling_rate * self.seconds)


@dataclass(frozen=True)
class Cut:
    """What one record gave; its windows lie in a part file. `error`: why it is left out."""

    starts: NDArray[np.float64]  # s, of the windows kept
    labels: tuple[NDArray[np.uint8], NDArray[np.uint8]]  # strict, paper
    person: tuple[int, float]  # sex, age in years
    record_seconds: float
    skipped: dict[str, int]  # windows skipped, by reason
    uncalibrated: bool
    error: str = ""


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
        return Cut(np.zeros(0), (nothing, nothing), (-1, np.nan), 0.0, {}, False, str(error))


def _cut(hospital: HospitalFile, record: str, part: Path, settings: WindowSettings) -> Cut:
    read = read_record(hospital, record)
    rate, seconds = read.sampling_rate, settings.length / settings.sampling_rate
    duration = read.signal.shape[1] / rate
    if duration + 1e-9 < seconds:
        raise RecordError(f"record {record}: length is {duration:g} s; allowed is {seconds:g} s "
                          "(a window) or more")  # fmt: skip
    missing, flat = np.isnan(read.signal), _flat(read.signal, rate)
    resampled = _resample(read.signal, missing | flat, rate, settings.sampling_rate)
    count = min(int(duration / seconds + 1e-9), resampled.shape[1] // settings.length)
    starts = np.arange(count) * seconds
    cut = resampled[:, : count * settings.length].reshape(len(resampled), count, settings.length)
    low, high = cut.min(axis=2, keepdims=True), cut.max(axis=2, keepdims=True)  # [leads, n, 1]
    outside = ((high - low < _LOW) | (high - low > _HIGH)).any(axis=(0, 2))
    reason = np.where(outside, 3, 0)
    for number, bad in ((2, flat), (1, missing)):
        reason[_touched(bad, rate, starts, seconds)] = number
    texts = {1: "missing", 2: "flat", 3: "out of range"}
    skipped = {text: int((reason == k).sum()) for k, text in texts.items() if (reason == k).any()}
    keep = reason == 0
    windows = (cut[:, keep] - low[:, keep]) / (high - low)[:, keep]
    _write(part, windows.swapaxes(0, 1))
    labels = label_windows(read.annotations, rate, starts[keep], seconds, hospital.labels)
    person = demographics_of(hospital, record, read.comments)
    error = "" if keep.any() else f"record {record}: none of {count} windows is usable: {skipped}"
    return Cut(starts[keep], labels, person, duration, skipped, read.uncalibrated, error)


def _write(part: Path, windows: NDArray[np.float32]) -> None:
    try:
        windows.astype("<f4", copy=False).tofile(part)
    except OSError as error:
        raise InputError(f"store is '{part.parent}'; it cannot be written: {error}") from None


def _flat(signal: NDArray[np.float64], rate: float) -> NDArray[np.bool_]:
    """Samples of runs that keep one value for a second or longer."""
    flat = np.zeros(signal.shape, dtype=bool)
    block = max(1, int(_FLAT * rate) // 2)  # a flat second holds a whole block without a change
    for row, mask in zip(signal, flat, strict=True):
        changed = row[1:] != row[:-1]
        if changed[: len(changed) // block * block].reshape(-1, block).any(axis=1).all():
            continue
        edges = np.concatenate([[0], np.flatnonzero(changed) + 1, [len(row)]])
        for i in np.flatnonzero(np.diff(edges) >= _FLAT * rate):
            mask[edges[i] : edges[i + 1]] = True
    return flat


def _resample(
    signal: NDArray[np.float64], bad: NDArray[np.bool_], rate: float, target: int
) -> NDArray[np.float32]:
    """The leads at `target` Hz; bad samples are bridged first, so that no filter sees them."""
    ratio = Fraction(target) / Fraction(rate).limit_denominator(1000)
    filled = signal.astype(np.float32)  # half the memory; 24 bits hold any converter's samples
    at = np.arange(signal.shape[1])
    for row, mask in zip(filled, bad, strict=True):
        if mask.all():
            row[:] = 0.0
        elif mask.any():
            row[mask] = np.interp(at[mask], at[~mask], row[~mask])
    if ratio == 1:
        return filled
    up, down = ratio.numerator, ratio.denominator
    return np.asarray(resample_poly(filled, up, down, axis=1, padtype="line"), dtype=np.float32)


def _touched(
    bad: NDArray[np.bool_], rate: float, starts: NDArray[np.float64], seconds: float
) -> NDArray[np.bool_]:
    """Windows that hold a bad sample of any lead, [n]."""
    if not bad.any():
        return np.zeros(len(starts), dtype=bool)
    total = np.concatenate([[0], np.cumsum(bad.any(axis=0))])
    first = np.floor(starts * rate + 1e-6).astype(int)
    last = np.minimum(np.ceil((starts + seconds) * rate - 1e-6).astype(int), bad.shape[1])
    return np.asarray(total[last] > total[first])
