"""EDF and EDF+ recordings, through edfio; one file is one record."""

from __future__ import annotations

from datetime import date
from typing import Any

import edfio
import numpy as np

from common.ecg.hospital_file import HospitalFile
from common.ecg.recording import Recording, check_rate, choose_leads, millivolts
from common.errors import RecordError


def read_edf(hospital: HospitalFile, record: str) -> Recording:
    """The chosen leads of an EDF file; sex and age become comments, as a WFDB header's would be.

    EDF's lowest and highest digital values mean "at the end of the range": such samples count as
    saturated. EDF knows no missing sample.

    Raises:
        RecordError: the file has gaps (EDF+D), leads of different rates, or no such leads.
    """
    path = hospital.path / record
    file = edfio.read_edf(path.with_name(path.name + ".edf"), header_encoding="latin-1")
    if file.reserved.startswith("EDF+D"):
        raise RecordError(f"record {record}: it is EDF+D, which has gaps; allowed is EDF or EDF+C")
    channels = [file.signals[i] for i in choose_leads(hospital, record, file.labels)]
    rates = {float(channel.sampling_frequency) for channel in channels}
    if len(rates) != 1:
        raise RecordError(f"record {record}: its leads have {sorted(rates)} Hz; allowed is one "
                          "sampling rate")
    rate = rates.pop()
    check_rate(record, rate)
    signal, saturated = [], []
    for channel in channels:
        scale = millivolts(record, channel.physical_dimension or "uV")
        signal.append(np.asarray(channel.data, dtype=np.float64) * scale)
        ends = (channel.digital_min, channel.digital_max)
        saturated.append(np.isin(channel.digital, ends))
    return Recording(tuple(channel.label for channel in channels), np.stack(signal),
                     np.stack(saturated), rate, _comments(file))


def _comments(file: Any) -> tuple[str, ...]:
    """Age at the recording and sex, of an EDF+ header; plain EDF has neither."""
    try:
        sex, born, then = file.patient.sex, file.patient.birthdate, file.recording.startdate
    except ValueError:  # plain EDF, or dates that were removed
        return ()
    said = [f"sex: {sex}"] if sex in ("M", "F") else []
    return tuple([*said, f"age: {_years(born, then)}"] if born and then else said)


def _years(born: date, then: date) -> int:
    return then.year - born.year - ((then.month, then.day) < (born.month, born.day))
