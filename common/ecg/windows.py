"""Preparing: a hospital's records, each cut into windows, indexed and joined into a store."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.ecg.beats import join
from common.ecg.cutting import Cut, WindowSettings
from common.ecg.demographics import age_band
from common.ecg.fingerprint import fingerprint
from common.ecg.hospital_file import HospitalFile, table_path
from common.ecg.pooling import pool
from common.ecg.quality import REASONS
from common.ecg.splits import reserve_patients, split_parts
from common.ecg.store import FORMAT, INDEX, Store, build_store, finish_store
from common.ecg.subjects import files_below, list_records, patient_of, taking_part
from common.ecg.workers import cut_all
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
    records = taking_part(hospital, records, patients)
    key = _key(hospital, records, settings, Path(directory))

    def fill(partial: Path) -> None:
        cuts = cut_all(hospital, records, partial, settings, workers, progress)
        used = [i for i, cut in enumerate(cuts) if len(cut.starts)]
        owners = [patients[records[i]] for i in used]
        info = _describe(hospital, settings, records, cuts, owners)
        index = _index([cuts[i] for i in used], owners, info, settings)
        parts = [partial / f"{i}.part" for i in used]
        finish_store(partial, index, info, parts, (len(hospital.leads), settings.length),
                     join([cuts[i].beats for i in used]))
        for i in range(len(records)):
            (partial / f"{i}.npz").unlink()

    return build_store(Path(directory) / f"{hospital.name}-{key}", fill)


def _describe(
    hospital: HospitalFile,
    settings: WindowSettings,
    records: Sequence[str],
    cuts: Sequence[Cut],
    owners: Sequence[str],
) -> dict[str, Any]:
    """What the store says of itself, beside its windows and its index."""
    left_out = [[r, cut.error] for r, cut in zip(records, cuts, strict=True) if cut.error]
    skipped = _total([cut.skipped for cut in cuts])
    patients = list(dict.fromkeys(owners))
    if len(patients) < 2:
        why = f"; {len(left_out)} records left out: {left_out[0][1]}" if left_out else ""
        raise InputError(
            f"hospital {hospital.name} has {len(patients)} patient{'s' * (len(patients) != 1)} "
            f"with usable windows; at least 2 are needed{why}"
            + (f"; skipped windows: {skipped}" if skipped else "")
        )
    used = [cut for cut in cuts if len(cut.starts)]
    return {
        "name": hospital.name,
        "patients": patients,
        "ages": _ages(used, owners),
        "records": [r for r, cut in zip(records, cuts, strict=True) if len(cut.starts)],
        "leads": ["|".join(lead) for lead in hospital.leads],
        "records_by_leads": dict(Counter(" + ".join(cut.leads) for cut in used)),
        "sampling_rate": settings.sampling_rate,
        "seconds": settings.seconds,
        "hours": sum(len(cut.starts) for cut in cuts) * settings.seconds / 3600,
        "recorded_hours": sum(cut.record_seconds for cut in cuts) / 3600,
        "skipped": skipped,
        "bad_seconds": _total([cut.bad_seconds for cut in cuts]),
        "left_out": left_out,
        "uncalibrated": sum(cut.uncalibrated for cut in used),
    }


def _total(counts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums by reason, in the order of `quality.REASONS`."""
    sums = {reason: sum(count.get(reason, 0) for count in counts) for reason in REASONS}
    return {reason: value for reason, value in sums.items() if value}


def _ages(cuts: Sequence[Cut], owners: Sequence[str]) -> dict[str, float]:
    """Age in years of each patient who has one: the first that a record states."""
    ages: dict[str, float] = {}
    for cut, owner in zip(cuts, owners, strict=True):
        if not math.isnan(cut.person[1]):
            ages.setdefault(owner, cut.person[1])
    return ages


def _key(
    hospital: HospitalFile, records: Sequence[str], settings: WindowSettings, directory: Path
) -> str:
    """Digest of settings and contents; where the files lie does not count."""
    names = set(records)
    tables = [t for t in (hospital.subjects, hospital.demographics) if t.lower().endswith(".csv")]
    files = {table: table_path(hospital, table) for table in tables}
    for file in files_below(hospital.path):
        name = file.relative_to(hospital.path)
        # A signal file may have any name: only the header, which is not read yet, knows it.
        if name.with_suffix("").as_posix() in names or file.suffix in (".dat", ".mat"):
            files[name.as_posix()] = file
    rule = {**asdict(hospital), "path": "", "file": ""}
    content = fingerprint(files, directory)
    how = asdict(settings)
    if settings.checked:  # stores of before there was a choice are found
        del how["checked"]
    text = repr((FORMAT, how, rule, list(records), content))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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
        index["age"][rows] = age_band(info["ages"].get(name, math.nan))
        index["reserved"][rows] = name in reserved
    index["patient"] = patient
    lengths = np.repeat([cut.record_seconds for cut in cuts], sizes)
    seconds = settings.length / settings.sampling_rate
    index["part"] = split_parts(patient, index["record"], index["start"], seconds, lengths)
    return index
