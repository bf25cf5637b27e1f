"""CSV and Parquet recordings: a column a lead, a row a sample, at the hospital file's rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet

from common.ecg.hospital_file import HospitalFile
from common.ecg.recording import Floats, Recording, brief, choose_leads, millivolts
from common.errors import RecordError


def read_signal_table(hospital: HospitalFile, record: str) -> Recording:
    """The chosen columns of a CSV or Parquet file; an empty cell is a missing sample.

    Raises:
        RecordError: a column is missing or holds something that is no number.
    """
    if not hospital.sampling_rate:
        raise RecordError(f"record {record}: {hospital.file.name} has no sampling_rate; CSV and "
                          "Parquet need one, in Hz")
    path = hospital.path / record
    file = path.with_name(path.name + ".parquet")
    parquet = file.is_file()
    file = file if parquet else path.with_name(path.name + ".csv")
    names = _columns(file, parquet)
    chosen = [names[i] for i in choose_leads(hospital, record, names)]
    try:
        cells = _cells(file, parquet, chosen)
    except (TypeError, ValueError) as error:
        raise RecordError(f"record {record}: '{file.name}' holds cells that are no numbers "
                          f"({brief(error, 200)})") from None
    with np.errstate(over="ignore"):  # infinite volts are missing ones
        signal = cells.T * millivolts(record, hospital.unit)
    if not signal.shape[1]:
        raise RecordError(f"record {record}: samples is 0; allowed is 1 or more")
    signal[~np.isfinite(signal)] = np.nan
    return Recording(tuple(chosen), np.ascontiguousarray(signal), None, hospital.sampling_rate, ())


def _cells(file: Path, parquet: bool, chosen: list[str]) -> Floats:
    if parquet:
        table = pd.read_parquet(file, columns=chosen)
    else:
        table = pd.read_csv(file, usecols=chosen, skipinitialspace=True, dtype=np.float64)
    return np.asarray(table[chosen].to_numpy(dtype=np.float64, na_value=np.nan))


def _columns(file: Path, parquet: bool) -> list[str]:
    if parquet:
        return [str(name) for name in pyarrow.parquet.read_schema(file).names]
    return [str(name) for name in pd.read_csv(file, nrows=0, skipinitialspace=True).columns]
