"""Preparing: a hospital's records, each cut into windows, indexed and joined into a store."""

from __future__ import annotations

import hashlib
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.ecg.cutting import Cut, WindowSettings, cut_record
from common.ecg.demographics import age_band
from common.ecg.hospital_file import HospitalFile, table_path
from common.ecg.pooling import pool
from common.ecg.splits import reserve_patients, split_parts
from common.ecg.store import FORMAT, INDEX, Store, build_store, finish_store
from common.ecg.subjects import RECORD_LISTS, files_below, list_records, patient_of
from common.errors import InputError

__all__ = ["Store", "WindowSettings", "pool", "prepare"]


def prepare(
    hospital: HospitalFile,
    directory: Path,
    settings: WindowSettings,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Store:
    """Cut a hospital's records into a store below `directory`, or open the one that is there.

    Raises:
        InputError: no usable window, or windows of fewer than two patients.
    """
    records = list_records(hospital)
    patients = patient_of(hospital, records)
    target = Path(directory) / f"{hospital.name}-{_key(hospital, settings)}"
    if (target / "store.json").is_file():
        return Store.open(target)
    with build_store(target) as partial:
        cuts = _cut_all(hospital, records, partial, settings, workers, progress)
        used = [i for i, cut in enumerate(cuts) if len(cut.starts)]
        owners = [patients[records[i]] for i in used]
        info = _describe(hospital, settings, records, cuts, list(dict.fromkeys(owners)))
        index = _index([cuts[i] for i in used], owners, info, settings)
        parts = [partial / f"{i}.part" for i in used]
        finish_store(partial, index, info, parts, (len(hospital.leads), settings.length))
    return Store.open(target)


def _describe(
    hospital: HospitalFile,
    settings: WindowSettings,
    records: Sequence[str],
    cuts: Sequence[Cut],
    patients: list[str],
) -> dict[str, Any]:
    left_out = [[r, cut.error] for r, cut in zip(records, cuts, strict=True) if cut.error]
    skipped = dict(sum((Counter(cut.skipped) for cut in cuts), Counter[str]()))
    if len(patients) < 2:
        why = f"; {len(left_out)} records left out: {left_out[0][1]}" if left_out else ""
        raise InputError(
            f"hospital {hospital.name} has {len(patients)} patient{'s' * (len(patients) != 1)} "
            f"with usable windows; at least 2 are needed{why}"
            + (f"; skipped windows: {skipped}" if skipped else "")
        )
    return {
        "name": hospital.name,
        "patients": patients,
        "records": [r for r, cut in zip(records, cuts, strict=True) if len(cut.starts)],
        "leads": ["|".join(lead) for lead in hospital.leads],
        "sampling_rate": settings.sampling_rate,
        "seconds": settings.seconds,
        "hours": sum(len(cut.starts) for cut in cuts) * settings.seconds / 3600,
        "skipped": skipped,
        "left_out": left_out,
        "uncalibrated": sum(cut.uncalibrated and len(cut.starts) > 0 for cut in cuts),
    }


def _key(hospital: HospitalFile, settings: WindowSettings) -> str:
    digest = hashlib.sha256(repr((FORMAT, asdict(settings), asdict(hospital))).encode())
    tables = [t for t in (hospital.subjects, hospital.demographics) if t.lower().endswith(".csv")]
    files = [table_path(hospital, table) for table in tables]
    for file in files_below(hospital.path):
        if file.suffix in (".hea", ".dat", ".atr") or file.name in RECORD_LISTS:
            files.append(file)
    for file in sorted(set(files)):
        try:
            stat = file.stat()
        except OSError as error:  # a dangling link: reading the record will say so
            digest.update(f"{file}\0{error.strerror}\n".encode())
        else:
            digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def _cut_all(
    hospital: HospitalFile,
    records: Sequence[str],
    partial: Path,
    settings: WindowSettings,
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> list[Cut]:
    jobs = [(hospital, r, partial / f"{i}.part", settings) for i, r in enumerate(records)]
    report = progress or (lambda done, total: None)
    if workers <= 1:
        cuts = []
        for job in jobs:
            cuts.append(cut_record(*job))
            report(len(cuts), len(jobs))
        return cuts
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, fork, _ignore_interrupt) as executor:
        futures = [executor.submit(cut_record, *job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                report(done, len(jobs))
        except BrokenProcessPool:
            raise InputError(f"hospital {hospital.name}: a worker was killed, perhaps for memory; "
                             f"workers is {workers}, try fewer") from None  # fmt: skip
        except BaseException:
            executor.shutdown(cancel_futures=True)  # the other records would be waited for
            raise
        return [future.result() for future in futures]


def _ignore_interrupt() -> None:
    """Ctrl-C reaches the whole group; the parent alone answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _index(
    cuts: Sequence[Cut], owners: Sequence[str], info: dict[str, Any], settings: WindowSettings
) -> NDArray[Any]:
    sizes = [len(cut.starts) for cut in cuts]
    names: list[str] = info["patients"]
    index = np.zeros(sum(sizes), dtype=INDEX)
    index["record"] = np.repeat(np.arange(len(cuts)), sizes)
    index["start"] = np.concatenate([cut.starts for cut in cuts])
    for column, mode in enumerate(("strict", "paper")):
        index[mode] = np.concatenate([cut.labels[column] for cut in cuts])
    reserved = reserve_patients(names, settings.reserved, settings.seed, info["name"])
    patient = np.repeat([names.index(owner) for owner in owners], sizes)
    for i, name in enumerate(names):  # one record may know what another does not
        people = [cut.person for cut, owner in zip(cuts, owners, strict=True) if owner == name]
        rows = patient == i
        index["sex"][rows] = next((sex for sex, _ in people if sex >= 0), -1)
        bands = [age_band(age) for _, age in people]
        index["age"][rows] = next((band for band in bands if band >= 0), -1)
        index["reserved"][rows] = name in reserved
    index["patient"] = patient
    lengths = np.repeat([cut.record_seconds for cut in cuts], sizes)
    seconds = settings.length / settings.sampling_rate
    index["part"] = split_parts(patient, index["record"], index["start"], seconds, lengths)
    return index
