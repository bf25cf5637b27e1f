"""EDF and EDF+ recordings, through edfio; one file is one record."""

from __future__ import annotations

import warnings
from datetime import date
from pathlib import Path
from typing import Any

import edfio
import numpy as np

from common.ecg.hospital_file import HospitalFile
from common.ecg.recording import (
    MAX_SIGNALS,
    Recording,
    brief,
    check_rate,
    choose_leads,
    millivolts,
)
from common.errors import RecordError


def read_edf(hospital: HospitalFile, record: str) -> Recording:
    """The chosen leads of an EDF file; sex and age become comments, as a WFDB header's would be.

    EDF's lowest and highest digital values mean "at the end of the range": such samples count as
    saturated. EDF knows no missing sample.

    Raises:
        RecordError: the header is not what it should be, the file is shorter than it promises, has
            gaps (EDF+D), leads of different rates, or no such leads.
    """
    path = (hospital.path / record).with_name(f"{Path(record).name}.edf")
    blocks = _check_header(record, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what lies behind the promised blocks
        file = edfio.read_edf(path, header_encoding="latin-1")
    if file.reserved.startswith("EDF+D"):
        raise RecordError(f"record {record}: it is EDF+D, which has gaps; allowed is EDF or EDF+C")
    channels = [file.signals[i] for i in choose_leads(hospital, record, file.labels)]
    rates = {float(channel.sampling_frequency) for channel in channels}
    for rate in rates:
        check_rate(record, rate)
    if len(rates) != 1:
        raise RecordError(f"record {record}: its leads have {sorted(rates)} Hz; allowed is one "
                          "sampling rate")
    signal, saturated = [], []
    for channel in channels:
        scale = millivolts(record, channel.physical_dimension or "uV")
        ends = _check_range(record, channel)
        n = blocks * channel.samples_per_data_record
        signal.append(np.asarray(channel.data[:n], dtype=np.float64) * scale)
        saturated.append(np.isin(channel.digital[:n], ends))
    return Recording(tuple(channel.label for channel in channels), np.stack(signal),
                     np.stack(saturated), rates.pop(), _comments(file))


def _check_header(record: str, file: Path) -> int:
    """How many data blocks the header promises, or else the file holds; edfio believes both."""
    with file.open("rb") as open_file:
        fixed = open_file.read(256)
        if len(fixed) < 256:
            raise RecordError(f"record {record}: it cannot be read; it has {len(fixed)} bytes, an "
                              "EDF header has 256 or more")
        _whole(record, "version", fixed[:8], 0, 0)
        signals = _whole(record, "signals", fixed[252:256], 1, MAX_SIGNALS)
        start = 256 * (signals + 1)
        _whole(record, "header bytes", fixed[184:192], start, start)
        blocks = _whole(record, "data records", fixed[236:244], -1, 10**8)
        open_file.seek(256 + 216 * signals)
        per_block = [_whole(record, "samples per data record", open_file.read(8), 0, 10**8)
                     for _ in range(signals)]
    size = 2 * sum(per_block)
    there = (file.stat().st_size - start) // size if size else 0
    if not there or not blocks or there < blocks:
        raise RecordError(f"record {record}: its file holds {there} data records of {size} bytes; "
                          f"its header promises {blocks}")
    return there if blocks < 0 else blocks


def _whole(record: str, name: str, field: bytes, least: int, most: int) -> int:
    text = field.decode("latin-1").strip()
    if not (text.removeprefix("-").isdecimal() and least <= int(text) <= most):
        allowed = f"{least} to {most}" if least < most else str(least)
        raise RecordError(f"record {record}: {name} is {brief(text)!r}; allowed is {allowed}")
    return int(text)


def _check_range(record: str, channel: Any) -> tuple[int, int]:
    """The lowest and highest digital value; edfio takes a range that makes no sense for none."""
    try:
        low, high = channel.digital_min, channel.digital_max
        span = abs(channel.physical_max - channel.physical_min)
    except ValueError as error:
        raise RecordError(f"record {record}: lead {brief(channel.label)} has a range that is no "
                          f"number ({brief(error)})") from None
    if not (-32768 <= low < high <= 32767 and 1e-9 <= span <= 1e12):
        raise RecordError(
            f"record {record}: lead {brief(channel.label)} has digital range {low} to {high} and "
            f"physical range {channel.physical_min:g} to {channel.physical_max:g}; allowed are two "
            "numbers that differ, of 16 bits the former"
        )
    return low, high


def _comments(file: Any) -> tuple[str, ...]:
    """Age at the recording and sex, of an EDF+ header; plain EDF has neither."""
    try:
        sex, born, then = file.patient.sex, file.patient.birthdate, file.recording.startdate
    except (ValueError, OverflowError):  # plain EDF, or dates that were removed
        return ()
    said = [f"sex: {sex}"] if sex in ("M", "F") else []
    return tuple([*said, f"age: {_years(born, then)}"] if born and then else said)


def _years(born: date, then: date) -> int:
    return then.year - born.year - ((then.month, then.day) < (born.month, born.day))
