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
    brief,
    check_rate,
    choose_leads,
    millivolts,
)
from common.errors import RecordError

MAX_HEADER = 2**20  # bytes
MAX_LINE = 1000  # characters; wfdb's patterns take time that is quadratic in it
_BYTES = {"8": 1.0, "16": 2.0, "24": 3.0, "32": 4.0, "61": 2.0, "80": 1.0, "160": 2.0,
          "212": 1.5, "310": 4 / 3, "311": 4 / 3}  # fmt: skip  # of one sample
_BITS = {"8": 32, "16": 16, "24": 24, "32": 32, "61": 16, "80": 8, "160": 16, "212": 12,
         "310": 10, "311": 10}  # fmt: skip  # 8 holds differences
_NUMBER = r"(?:\d{1,15}\.?\d{0,20}|\.\d{1,20})"
_FIELDS = {  # of the record line; wfdb takes what it does not understand for absent
    "signals": r"\d{1,9}",
    "sampling rate": rf"{_NUMBER}(?:/-?{_NUMBER}(?:\(-?{_NUMBER}\))?)?",
    "samples": r"\d{1,15}",
}
_FORMAT = r"\d{1,3}(?:x\d{1,9})?(?::\d{1,15})?(?:\+\d{1,15})?"
_GAIN = re.compile(rf"([-+]?{_NUMBER}(?:e[-+]?\d{{1,3}})?)(?:\(-?\d{{1,10}}\))?(?:/(.*))?")


def read_wfdb(hospital: HospitalFile, record: str) -> Recording:
    """The chosen leads of a single-segment WFDB record.

    Raises:
        RecordError: the header or a signal file is not what it should be.
    """
    path = hospital.path / record
    lines = _lines(record, path.with_name(path.name + ".hea"))
    head = wfdb.rdheader(str(path))
    _check_header(record, path, head)
    names = [str(name) for name in head.sig_name]
    channels = choose_leads(hospital, record, names)
    gains = [_gain(record, head, channel, lines[1 + channel]) for channel in channels]
    read = wfdb.rdrecord(str(path), physical=False, channels=channels)
    if hospital.checksums == "header":
        _check_sums(record, head, read, channels)
    scale = np.array([[millivolts(record, unit)] for _, unit in gains])
    signal = np.ascontiguousarray(read.dac().T, dtype=np.float64)
    if (scale != 1).any():
        signal *= scale
    uncalibrated = any(gain == 0 for gain, _ in gains)
    return Recording(tuple(names[c] for c in channels), signal, _saturated(head, read, channels),
                     float(head.fs), tuple(head.comments), uncalibrated)


def _lines(record: str, file: Path) -> list[str]:
    """The header's lines but for comments, as wfdb sees them (in ASCII), with µV as uV."""
    with file.open("rb") as open_file:
        raw = open_file.read(MAX_HEADER + 1)
    if len(raw) > MAX_HEADER:
        raise RecordError(f"record {record}: its header is longer than {MAX_HEADER} bytes")
    text = re.sub(rb"/(\xc2\xb5|\xce\xbc|\xb5)", b"/u", raw).decode("ascii", "ignore")
    stripped = (line.strip() for line in text.splitlines())
    lines = [line for line in stripped if line and not line.startswith("#")]
    if not 0 < len(lines) <= 1 + MAX_SIGNALS or max(map(len, lines)) > MAX_LINE:
        raise RecordError(f"record {record}: its header has {len(lines)} lines; allowed are 1 to "
                          f"{1 + MAX_SIGNALS}, of {MAX_LINE} characters each")
    _check_words(record, lines)
    return lines


def _check_words(record: str, lines: Sequence[str]) -> None:
    if re.match(r"\S+/\d", lines[0]):
        raise RecordError(f"record {record}: it has segments; allowed is a single segment")
    words = re.split(r"[ \t]+", lines[0])[1:]
    for (name, pattern), word in zip(_FIELDS.items(), words, strict=False):
        if not re.fullmatch(pattern, word):
            raise RecordError(f"record {record}: {name} is {brief(word)!r}; allowed is a number")
    for line in lines[1:]:
        words = re.split(r"[ \t]+", line)
        if len(words) > 1 and not re.fullmatch(_FORMAT, words[1]):
            raise RecordError(f"record {record}: format is {brief(words[1])!r}; allowed is a "
                              "number, as in 16 or 16x2:0+24")


def _gain(record: str, head: Any, channel: int, line: str) -> tuple[float, str]:
    """The gain as the header writes it, which wfdb replaces where it is 0, and the unit."""
    word = [*re.split(r"[ \t]+", line), "0"][2]
    match = _GAIN.fullmatch(word)
    gain = float(match[1]) if match else math.nan
    if not match or not (gain == 0 or 1e-9 <= abs(gain) <= 1e15):
        raise RecordError(f"record {record}: gain is {brief(word)!r}; allowed is a number, as "
                          "in 200 or 200(1024)/mV")
    if abs(head.baseline[channel]) > 2**31:
        raise RecordError(f"record {record}: baseline is {brief(head.baseline[channel])}; allowed "
                          "are 32 bits")
    return gain, match[2] or "mV"


def _check_header(record: str, path: Path, head: Any) -> None:
    if not head.n_sig or not head.sig_name:
        raise RecordError(f"record {record}: signals is {head.n_sig}; allowed is 1 or more")
    if head.n_sig > MAX_SIGNALS or len(head.sig_name) != head.n_sig:
        raise RecordError(f"record {record}: signals is {head.n_sig}; its header describes "
                          f"{len(head.sig_name)}, allowed are {MAX_SIGNALS}")
    check_rate(record, head.fs or 0)
    if head.sig_len is not None and head.sig_len < 1:
        raise RecordError(f"record {record}: samples is {head.sig_len}; allowed is 1 or more")
    length = head.sig_len
    for name in dict.fromkeys(head.file_name):
        signals = [i for i, other in enumerate(head.file_name) if other == name]
        _check_layout(record, str(name), signals, head)
        length = _check_size(record, path.parent / str(name), signals, head, length)
    skew = max(value or 0 for value in head.skew)
    if skew >= length:
        raise RecordError(f"record {record}: skew is {skew}; allowed is less than its {length} "
                          "samples")


def _check_layout(record: str, name: str, signals: Sequence[int], head: Any) -> None:
    """Refuse what wfdb would misread: it takes a file's first format and place for all."""
    of = f"record {record}: file {brief(name)!r} has"
    if Path(name).name != name:
        raise RecordError(f"record {record}: signal file is {brief(name)!r}; allowed is a plain "
                          "name")
    formats = list(dict.fromkeys(head.fmt[i] for i in signals))
    if len(formats) > 1 or formats[0] not in _BYTES:
        raise RecordError(f"{of} format {brief(', '.join(formats))}; allowed is one of "
                          f"{', '.join(_BYTES)}")
    if signals[-1] - signals[0] + 1 != len(signals):
        raise RecordError(f"{of} signals {brief(signals)}; allowed are consecutive ones")
    if 0 in (head.samps_per_frame[i] for i in signals):
        raise RecordError(f"{of} 0 samples per frame; allowed is 1 or more")


def _check_size(
    record: str, file: Path, signals: Sequence[int], head: Any, length: int | None
) -> int:
    """Compare what the header promises of one signal file with its size; gives the samples."""
    if not file.is_file():
        raise RecordError(f"record {record}: file {brief(file.name)!r} is missing")
    size = file.stat().st_size - int(head.byte_offset[signals[0]] or 0)
    frame = _BYTES[head.fmt[signals[0]]] * sum(head.samps_per_frame[i] for i in signals)
    samples = max(int(size / frame), 1) if length is None else length  # as wfdb counts them
    needed = math.ceil(samples * frame - 1e-6)
    if size < needed:
        raise RecordError(f"record {record}: file {brief(file.name)!r} has {size} bytes; its "
                          f"header promises {needed}")
    return samples


def _check_sums(record: str, head: Any, read: Any, channels: Sequence[int]) -> None:
    for column, channel in enumerate(channels):
        stated = head.checksum[channel]
        if stated is None or head.samps_per_frame[channel] != 1 or head.skew[channel]:
            continue  # it is one of other samples than those read
        found = int(np.sum(read.d_signal[:, column], dtype=np.int64))
        if (found - int(stated)) % 65536:
            raise RecordError(
                f"record {record}: lead {brief(head.sig_name[channel])} has checksum "
                f"{(found + 32768) % 65536 - 32768}; its header states {brief(stated)}: it is "
                "damaged"
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
