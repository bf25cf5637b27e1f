"""One WFDB record: its chosen leads in mV and its annotations, checked against its header."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import wfdb
from numpy.typing import NDArray

from common.ecg.hospital_file import HospitalFile
from common.ecg.labels import Annotations
from common.errors import RecordError

Floats = NDArray[np.float64]

_BYTES = {"8": 1.0, "16": 2.0, "24": 3.0, "32": 4.0, "61": 2.0, "80": 1.0, "160": 2.0,
          "212": 1.5, "310": 4 / 3, "311": 4 / 3}  # fmt: skip  # of one sample
_MILLIVOLTS = {"mv": 1.0, "uv": 1e-3, "µv": 1e-3, "μv": 1e-3, "v": 1e3, "nv": 1e-6}
_MAX_RATE = 20000.0  # Hz
_MAX_SIGNALS = 256


@dataclass(frozen=True)
class Recording:
    """The chosen leads of one record.

    Args:
        signal: mV, [leads, n]; NaN where a sample is missing.
        sampling_rate: Hz.
        comments: the header's comments.
        uncalibrated: a chosen lead's gain is 0 or absent; 200 units per mV are assumed.
        annotations: None where the record has none or the hospital's labels are "none".
    """

    signal: Floats
    sampling_rate: float
    comments: tuple[str, ...]
    uncalibrated: bool
    annotations: Annotations | None


def read_record(hospital: HospitalFile, record: str) -> Recording:
    """Read the leads a hospital file asks for.

    Raises:
        RecordError: the record is missing, damaged, or has not the leads; one line.
    """
    path = hospital.path / record
    try:
        text = (hospital.path / f"{record}.hea").read_text(encoding="utf-8", errors="replace")
        if re.match(r"\S+/\d", _lines(text)[0] if _lines(text) else ""):
            raise RecordError(f"record {record}: it has segments; allowed is a single segment")
        head = wfdb.rdheader(str(path))
        _check_header(record, path, head)
        channels = _choose(hospital, record, [str(name) for name in head.sig_name])
        read = wfdb.rdrecord(str(path), physical=False, channels=channels)
        _check_samples(record, head, read, channels)
        scale = np.array([[_scale(record, head, c)] for c in channels])
        signal = np.ascontiguousarray(read.dac().T, dtype=np.float64) * scale
        return Recording(
            signal,
            float(head.fs),
            tuple(head.comments),
            any(_gain(text, channel) == 0 for channel in channels),
            _annotations(hospital, record, head),
        )
    except RecordError:
        raise
    except FileNotFoundError as error:
        name = Path(str(error.filename)).name
        raise RecordError(f"record {record}: file '{name}' is missing") from None
    except Exception as error:  # wfdb's parsers raise whatever garbage leads them to
        reason = " ".join(str(error).split())[:200]
        kind = type(error).__name__
        raise RecordError(f"record {record}: it cannot be read ({kind}: {reason})") from None


def _lines(text: str) -> list[str]:
    stripped = [line.strip() for line in text.splitlines()]
    return [line for line in stripped if line and not line.startswith("#")]


def _gain(text: str, channel: int) -> float:
    """The gain as the header writes it; wfdb replaces 0 by 200."""
    fields = _lines(text)[1 + channel].split()
    number = re.match(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?", fields[2]) if len(fields) > 2 else None
    return float(number[0]) if number else 0.0


def _check_header(record: str, path: Path, head: Any) -> None:
    if not head.n_sig or not head.sig_name:
        raise RecordError(f"record {record}: signals is {head.n_sig}; allowed is 1 or more")
    if head.n_sig > _MAX_SIGNALS or len(head.sig_name) != head.n_sig:
        raise RecordError(
            f"record {record}: signals is {head.n_sig}; its header describes "
            f"{len(head.sig_name)}, allowed are {_MAX_SIGNALS}"
        )
    if not head.fs or not (math.isfinite(head.fs) and 1 <= head.fs <= _MAX_RATE):
        raise RecordError(
            f"record {record}: sampling rate is {head.fs}; allowed is 1 to {_MAX_RATE:g} Hz"
        )
    if head.sig_len is not None and head.sig_len < 1:
        raise RecordError(f"record {record}: samples is {head.sig_len}; allowed is 1 or more")
    for name in dict.fromkeys(head.file_name):
        _check_file(record, path.parent, str(name), head)


def _check_file(record: str, folder: Path, name: str, head: Any) -> None:
    """Compare what the header promises of one signal file with the file's size."""
    if Path(name).name != name:
        raise RecordError(f"record {record}: signal file is {name!r}; allowed is a plain name")
    signals = [i for i, other in enumerate(head.file_name) if other == name]
    for i in signals:
        if head.fmt[i] not in _BYTES:
            raise RecordError(
                f"record {record}: format is {head.fmt[i]}; allowed is {', '.join(_BYTES)}"
            )
    file = folder / name
    if not file.is_file():
        raise RecordError(f"record {record}: file {name!r} is missing")
    size = file.stat().st_size - int(head.byte_offset[signals[0]] or 0)
    frame = sum(_BYTES[head.fmt[i]] * (head.samps_per_frame[i] or 1) for i in signals)
    needed = math.ceil((head.sig_len or 1) * frame - 1e-6)
    if size < needed:
        raise RecordError(
            f"record {record}: file {name!r} has {size} bytes; its header promises {needed}"
        )


def _choose(hospital: HospitalFile, record: str, names: Sequence[str]) -> list[int]:
    channels = []
    for wanted in hospital.leads:
        found = next((names.index(lead) for lead in wanted if lead in names), None)
        if found is None:
            raise RecordError(
                f"record {record}: leads are {', '.join(names)}; wanted is {' or '.join(wanted)}"
            )
        channels.append(found)
    if len(set(channels)) != len(channels):
        raise RecordError(f"record {record}: leads are {', '.join(names)}; two choices coincide")
    return channels


def _scale(record: str, head: Any, channel: int) -> float:
    unit = str(head.units[channel] or "mV")
    if unit.lower() not in _MILLIVOLTS:
        raise RecordError(f"record {record}: unit is {unit!r}; allowed is mV, uV, nV or V")
    return _MILLIVOLTS[unit.lower()]


def _check_samples(record: str, head: Any, read: Any, channels: Sequence[int]) -> None:
    for column, channel in enumerate(channels):
        if read.sig_name[column] != head.sig_name[channel]:
            raise RecordError(f"record {record}: leads came back out of order")
        stated = head.checksum[channel]
        if stated is None or (head.samps_per_frame[channel] or 1) != 1:
            continue
        found = int(np.sum(read.d_signal[:, column], dtype=np.int64))
        if (found - int(stated)) % 65536:
            raise RecordError(
                f"record {record}: lead {head.sig_name[channel]} has checksum "
                f"{(found + 32768) % 65536 - 32768}; its header states {stated}: it is damaged"
            )


def _annotations(hospital: HospitalFile, record: str, head: Any) -> Annotations | None:
    if hospital.labels == "none" or not (hospital.path / f"{record}.atr").is_file():
        return None
    try:
        found = wfdb.rdann(str(hospital.path / record), "atr")
        sample = np.asarray(found.sample, dtype=np.int64)
    except Exception as error:  # as above
        reason = " ".join(str(error).split())[:200]
        raise RecordError(f"record {record}: its .atr cannot be read ({reason})") from None
    if len(sample) and (sample.min() < 0 or (np.diff(sample) < 0).any()):
        raise RecordError(f"record {record}: its .atr is damaged; times must rise from 0")
    if len(sample) and head.sig_len and sample[-1] > head.sig_len + head.fs:
        raise RecordError(
            f"record {record}: its .atr is damaged; a time is {sample[-1]} samples, "
            f"the record has {head.sig_len}"
        )
    return Annotations(sample, tuple(found.symbol), tuple(n or "" for n in found.aux_note))
