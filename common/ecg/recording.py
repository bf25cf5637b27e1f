"""One recording in memory, whatever file it came from: its chosen leads in mV, its annotations."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import wfdb
from numpy.typing import NDArray
from wfdb.io.annotation import ann_labels

from common.ecg.hospital_file import HospitalFile
from common.ecg.labels import Annotations
from common.errors import RecordError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MAX_RATE = 20000.0  # Hz
MAX_SIGNALS = 256
_SYMBOLS: dict[int, str] = {label.label_store: label.symbol for label in ann_labels}
_SKIP, _FIELDS, _AUX = 59, (60, 61, 62, 63), 63  # codes of .atr that are no annotations
# NU: normalized units, as releases have them; a window is scaled to [0, 1] anyway.
_MILLIVOLTS = {"nu": 1.0, "mv": 1.0, "uv": 1e-3, "µv": 1e-3, "μv": 1e-3, "v": 1e3,
               "nv": 1e-6}


@dataclass(frozen=True)
class Recording:
    """The chosen leads of one record.

    Args:
        leads: their names.
        signal: mV, [leads, n]; NaN where a sample is missing.
        saturated: [leads, n], samples at the end of the converter's range; None where there are
            none.
        sampling_rate: Hz.
        comments: what the header says beside the signals.
        uncalibrated: a chosen lead's gain is 0 or absent; 200 units per mV are assumed.
        annotations: None where the record has none or the hospital's labels are "none".
    """

    leads: tuple[str, ...]
    signal: Floats
    saturated: Bools | None
    sampling_rate: float
    comments: tuple[str, ...]
    uncalibrated: bool = False
    annotations: Annotations | None = None


def brief(value: object, most: int = 100) -> str:
    """What a file holds, fit for a message: one printable line, cut where it is long."""
    text = " ".join(str(value).split())
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def choose_leads(hospital: HospitalFile, record: str, names: Sequence[str]) -> list[int]:
    """The channel of each wanted lead; names match as written, or else whatever their case.

    Raises:
        RecordError: a lead is not there, or two are the same channel.
    """
    channels, folded = [], [name.casefold() for name in names]
    for wanted in hospital.leads:
        found = next((i for lead in wanted for i in _places(lead, names, folded)), None)
        if found is None:
            raise RecordError(f"record {record}: leads are {brief(', '.join(names))}; wanted is "
                              f"{brief(' or '.join(wanted))}")
        channels.append(found)
    if len(set(channels)) != len(channels):
        raise RecordError(f"record {record}: leads are {brief(', '.join(names))}; two choices "
                          "coincide")
    return channels


def _places(lead: str, names: Sequence[str], folded: Sequence[str]) -> list[int]:
    exact = [i for i, name in enumerate(names) if name == lead]
    return exact or [i for i, name in enumerate(folded) if name == lead.casefold()]


def millivolts(record: str, unit: str) -> float:
    """mV in one of a unit.

    Raises:
        RecordError: it is no unit of voltage.
    """
    if unit.lower() not in _MILLIVOLTS:
        raise RecordError(f"record {record}: unit is {brief(unit)!r}; allowed is mV, uV, nV, V or "
                          "NU")
    return _MILLIVOLTS[unit.lower()]


def check_rate(record: str, rate: float) -> None:
    """Raise RecordError unless a sampling rate (Hz) is one that a recorder can have."""
    if not 1 <= rate <= MAX_RATE:  # refuses NaN too
        raise RecordError(f"record {record}: sampling rate is {rate}; allowed is 1 to "
                          f"{MAX_RATE:g} Hz")


def read_annotations(path: Path, record: str, samples: int, rate: float) -> Annotations | None:
    """A record's WFDB annotations, `path`.atr; None without that file.

    Args:
        path: of the record, without suffix.
        record: its name, for messages.
        samples: length of the record.
        rate: its sampling rate, Hz.

    Raises:
        RecordError: the file is damaged.
    """
    file = path.with_name(path.name + ".atr")
    if not file.is_file():
        return None
    try:
        _check_codes(file.read_bytes(), record)
        found = wfdb.rdann(str(path), "atr", return_label_elements=["label_store"],
                           summarize_labels=False)
        sample = np.asarray(found.sample, dtype=np.int64)
    except RecordError:
        raise
    except Exception as error:  # wfdb's parser raises whatever garbage leads it to
        raise RecordError(f"record {record}: its .atr cannot be read "
                          f"({brief(error, 200)})") from None
    if found.fs and not math.isclose(found.fs, rate, rel_tol=1e-6):
        raise RecordError(f"record {record}: its .atr counts at {found.fs:g} Hz; allowed is the "
                          f"record's {rate:g} Hz")
    if len(sample) and (sample.min() < 0 or (np.diff(sample) < 0).any()):
        raise RecordError(f"record {record}: its .atr is damaged; times must rise from 0")
    if len(sample) and sample[-1] > samples + rate:
        raise RecordError(f"record {record}: its .atr is damaged; a time is {sample[-1]} samples, "
                          f"the record has {samples}")
    own = {code: symbol for code, symbol, _ in found.custom_labels or ()}  # wfdb misplaces them
    known = {**_SYMBOLS, **own}
    symbols = np.array([known.get(code, "") for code in range(64)])[found.label_store]
    notes = tuple(note or "" for note in found.aux_note)
    return Annotations(sample, symbols, notes, np.asarray(found.subtype, dtype=int))


def _check_codes(data: bytes, record: str) -> None:
    """Refuse what wfdb would misread: it pairs repeated fields with other annotations' times."""
    damaged = f"record {record}: its .atr is damaged; "
    if len(data) < 2 or len(data) % 2 or data[-2:] != b"\0\0":
        raise RecordError(f"{damaged}it has {len(data)} bytes and must end in the marker 00 00")
    words = np.frombuffer(data, dtype="<u2")
    codes, last = words >> 10, len(words) - 1
    at, notes = 0, []
    seen: set[int] | None = None  # fields of the annotation before; None where there is none
    # Ordinary annotations, which are most of a file, need no look.
    for i in np.flatnonzero((codes >= _SKIP) | (words == 0))[:-1].tolist():
        if i < at:
            continue  # inside a note or a skip
        seen = set() if i > at else seen
        code, at = int(codes[i]), i + 1
        if code in _FIELDS:
            if seen is None or code in seen:
                raise RecordError(f"{damaged}byte {2 * i} has field {code}; allowed is one of each "
                                  "after an annotation")
            seen.add(code)
            if code == _AUX:
                size = data[2 * i]
                notes.append(data[2 * at : 2 * at + size])
                at += (size + 1) // 2
        elif code == _SKIP:
            seen, at = None, i + 3
        elif data[2 * i :].strip(b"\0"):
            raise RecordError(f"{damaged}byte {2 * i} has its end marker; {2 * (last - i)} bytes "
                              "follow")
    if at > last:
        raise RecordError(f"{damaged}its last field is {2 * (at - last)} bytes longer than the "
                          "file")
    _check_definitions(notes, record)


def _check_definitions(notes: Sequence[bytes], record: str) -> None:
    """Notes that begin with ## define things; on one that wfdb does not know it waits forever."""
    kinds = ""
    for note in notes:
        if re.match(rb"## time resolution: \d", note):
            kinds += "t"
        elif note.startswith(b"## "):
            kinds += {b"## annotation type definitions": "d",
                      b"## end of definitions": "e"}.get(note, "?")  # fmt: skip
    if kinds not in ("", "t", "de", "tde", "det"):
        raise RecordError(f"record {record}: its .atr is damaged; allowed notes that begin with ## "
                          "are one time resolution and one list of definitions")
