"""One record of a hospital, read by the reader of its kind of file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from common.ecg.edf_files import read_edf
from common.ecg.hospital_file import HospitalFile
from common.ecg.recording import Recording, brief, read_annotations
from common.ecg.table_files import read_signal_table
from common.ecg.wfdb_files import read_wfdb
from common.errors import RecordError

_READERS: dict[str, Callable[[HospitalFile, str], Recording]] = {
    ".hea": read_wfdb,
    ".edf": read_edf,
    ".csv": read_signal_table,
    ".parquet": read_signal_table,
}


def read_record(hospital: HospitalFile, record: str) -> Recording:
    """Read the leads a hospital file asks for, from WFDB, EDF, CSV or Parquet.

    Annotations are WFDB's (`record`.atr) beside any of them.

    Raises:
        RecordError: the record is missing, damaged, or has not the leads; one line.
    """
    path = hospital.path / record
    try:
        reader = next((read for suffix, read in _READERS.items()
                       if path.with_name(path.name + suffix).is_file()), read_wfdb)
        found = reader(hospital, record)
        if hospital.labels == "none":
            return found
        marks = read_annotations(path, record, found.signal.shape[1], found.sampling_rate)
        return replace(found, annotations=marks)
    except RecordError:
        raise
    except FileNotFoundError as error:
        name = Path(str(error.filename)).name
        raise RecordError(f"record {record}: file '{name}' is missing") from None
    except Exception as error:  # parsers raise whatever garbage leads them to
        reason = f"{type(error).__name__}: {brief(error, 200)}"
        raise RecordError(f"record {record}: it cannot be read ({reason})") from None
