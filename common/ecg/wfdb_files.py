"""WFDB records: what the header promises is checked before and after the samples are read."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wfdb

from common.ecg.hospital_file import HospitalFile
from common.ecg.recording import (
    MAX_SIGNALS,
    Bools,
    Recording,
    check_rate,
    choose_leads,
    millivolts,
)
from common.errors import RecordError

_BYTES = {"8": 1.0, "16": 2.0, "24": 3.0, "32": 4.0, "61": 2.0, "80": 1.0, "160": 2.0,
          "212": 1.5, "310": 4 / 3, "311": 4 / 3}  # fmt: skip  # of one sample
_BITS = {"8": 8, "16": 16, "24": 24, "32": 32, "61": 16, "80": 8, "160": 16, "212": 12,
         "310": 10, "311": 10}  # fmt: skip


def read_wfdb(hospital: HospitalFile, record: str) -> Recording:
    """The chosen leads of a single-segment WFDB record.

    Raises:
        RecordError: the header or a signal file is not what it should be.
    """
    path = hospital.path / record
    text = path.with_name(path.name + ".hea").read_text(encoding="utf-8", errors="replace")
    if re.match(r"\S+/\d", _lines(text)[0] if _lines(text) else ""):
        raise RecordError(f"record {record}: it has segments; allowed is a single segment")
    head = wfdb.rdheader(str(path))
    _check_header(record, path, head)
    names = [str(name) for name in head.sig_name]
    channels = choose_leads(hospital, record, names)
    read = wfdb.rdrecord(str(path), physical=False, channels=channels)
    if hospital.checksums == "header":
        _check_sums(record, head, read, channels)
    scale = np.array([[millivolts(record, str(head.units[c] or "mV"))] for c in channels])
    signal = np.ascontiguousarray(read.dac().T, dtype=np.float64) * scale
    uncalibrated = any(_gain(text, channel) == 0 for channel in channels)
    return Recording(tuple(names[c] for c in channels), signal, _saturated(head, read, channels),
                     float(head.fs), tuple(head.comments), uncalibrated)


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
    if head.n_sig > MAX_SIGNALS or len(head.sig_name) != head.n_sig:
        raise RecordError(f"record {record}: signals is {head.n_sig}; its header describes "
                          f"{len(head.sig_name)}, allowed are {MAX_SIGNALS}")
    check_rate(record, head.fs or 0)
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
            raise RecordError(f"record {record}: format is {head.fmt[i]}; allowed is "
                              f"{', '.join(_BYTES)}")
    file = folder / name
    if not file.is_file():
        raise RecordError(f"record {record}: file {name!r} is missing")
    size = file.stat().st_size - int(head.byte_offset[signals[0]] or 0)
    frame = sum(_BYTES[head.fmt[i]] * (head.samps_per_frame[i] or 1) for i in signals)
    needed = math.ceil((head.sig_len or 1) * frame - 1e-6)
    if size < needed:
        raise RecordError(f"record {record}: file {name!r} has {size} bytes; its header promises "
                          f"{needed}")


def _check_sums(record: str, head: Any, read: Any, channels: Sequence[int]) -> None:
    for column, channel in enumerate(channels):
        stated = head.checksum[channel]
        if stated is None or (head.samps_per_frame[channel] or 1) != 1:
            continue
        found = int(np.sum(read.d_signal[:, column], dtype=np.int64))
        if (found - int(stated)) % 65536:
            raise RecordError(
                f"record {record}: lead {head.sig_name[channel]} has checksum "
                f"{(found + 32768) % 65536 - 32768}; its header states {stated}: it is damaged"
            )


def _saturated(head: Any, read: Any, channels: Sequence[int]) -> Bools | None:
    """Samples at the ends of the converter's range, by the header's resolution.

    Where a sample lies beyond them the header's resolution is wrong (svdb states 10 bits and has
    11) and says nothing.
    """
    masks = []
    for column, channel in enumerate(channels):
        values, kind = read.d_signal[:, column], head.fmt[channel]
        missing = -(2 ** (_BITS[kind] - 1))  # the format's own lowest value
        least, most = int(values.min()), int(values.max())
        if least == missing:
            least = int(np.min(values, where=values != missing, initial=most))
        bits = min(int(head.adc_res[channel] or _BITS[kind]), _BITS[kind])
        low = int(head.adc_zero[channel] or 0) - 2 ** (bits - 1)
        high, low = low + 2**bits - 1, max(low, missing + 1)
        at_end = low <= least and most <= high and (least == low or most == high)
        masks.append((values == low) | (values == high) if at_end else None)
    if all(mask is None for mask in masks):
        return None
    nothing = np.zeros(len(read.d_signal), dtype=bool)
    return np.stack([nothing if mask is None else mask for mask in masks])
