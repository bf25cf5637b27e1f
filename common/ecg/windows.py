"""Windows: a hospital's records, checked, resampled, cut and normalized into a store on disk."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from common.ecg.databases import (
    HospitalFile,
    age_band,
    demographics_of,
    list_records,
    patient_of,
    table_path,
)
from common.ecg.records import label_windows, read_record
from common.ecg.splits import INDEX, Store, reserve_patients, split_parts, summary
from common.errors import InputError, RecordError

__all__ = ["Store", "WindowSettings", "pool", "prepare"]

_FORMAT = 1  # part of a store's key: raise it when the numbers change
_LOW, _HIGH = 0.05, 20.0  # mV, allowed peak-to-peak of a window
_FLAT = 1.0  # s of one constant value
_CHUNK = 1 << 24  # bytes


@dataclass(frozen=True)
class WindowSettings:
    """Sampling rate (Hz) and length (s) of windows, share of reserved patients, and seed."""

    sampling_rate: int
    seconds: float
    reserved: float
    seed: int

    @property
    def length(self) -> int:
        """Samples in a window."""
        return round(self.sampling_rate * self.seconds)


@dataclass(frozen=True)
class _Cut:
    """What one record gave; its windows lie in a part file. `error`: it is left out."""

    starts: NDArray[np.float64]
    labels: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    person: tuple[int, float]
    record_seconds: float
    skipped: dict[str, int]
    uncalibrated: bool
    error: str = ""


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
    with _build(target) as partial:
        cuts = _cut_all(hospital, records, partial, settings, workers, progress)
        used = [i for i, cut in enumerate(cuts) if len(cut.starts)]
        owners = [patients[records[i]] for i in used]
        info = _describe(hospital, settings, records, cuts, list(dict.fromkeys(owners)))
        index = _index([cuts[i] for i in used], owners, info, settings)
        parts = [partial / f"{i}.part" for i in used]
        _finish(partial, index, info, parts, (len(hospital.leads), settings.length))
    return Store.open(target)


def _describe(
    hospital: HospitalFile,
    settings: WindowSettings,
    records: Sequence[str],
    cuts: Sequence[_Cut],
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
    digest = hashlib.sha256(repr((_FORMAT, asdict(settings), asdict(hospital))).encode())
    tables = [t for t in (hospital.subjects, hospital.demographics) if t.lower().endswith(".csv")]
    files = [table_path(hospital, table) for table in tables]
    for file in hospital.path.rglob("*"):
        if file.suffix in (".hea", ".dat", ".atr") or file.name in ("RECORDS", "RECORDS.txt"):
            files.append(file)
    for file in sorted(set(files)):
        stat = file.stat()
        digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


@contextmanager
def _build(target: Path) -> Iterator[Path]:
    """A folder that becomes `target` when the block ends well, and vanishes when not."""
    partial = target.parent / f".{target.name}-{secrets.token_hex(4)}.partial"
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"directory is '{target.parent}'; {error.strerror}") from None
    try:
        yield partial
        if not (target / "store.json").is_file():
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _cut_all(
    hospital: HospitalFile,
    records: Sequence[str],
    partial: Path,
    settings: WindowSettings,
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> list[_Cut]:
    jobs = [(hospital, r, partial / f"{i}.part", settings) for i, r in enumerate(records)]
    report = progress or (lambda done, total: None)
    if workers <= 1:
        cuts = []
        for job in jobs:
            cuts.append(_cut(*job))
            report(len(cuts), len(jobs))
        return cuts
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as executor:
        futures = [executor.submit(_cut, *job) for job in jobs]
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            report(done, len(jobs))
        return [future.result() for future in futures]


def _cut(hospital: HospitalFile, record: str, part: Path, settings: WindowSettings) -> _Cut:
    none, masks = np.zeros(0), (np.zeros(0, np.uint8), np.zeros(0, np.uint8))
    try:
        read = read_record(hospital, record)
    except RecordError as error:
        return _Cut(none, masks, (-1, np.nan), 0.0, {}, False, str(error))
    rate, length = read.sampling_rate, settings.length
    duration, seconds = read.signal.shape[1] / rate, length / settings.sampling_rate
    count = int(duration / seconds + 1e-9)
    if not count:
        short = {"shorter than a window": 1}
        return _Cut(none, masks, (-1, np.nan), duration, short, read.uncalibrated)
    missing, flat = np.isnan(read.signal), _flat(read.signal, rate)
    resampled = _resample(read.signal, missing | flat, rate, settings.sampling_rate)
    count = min(count, resampled.shape[1] // length)
    starts = np.arange(count) * seconds
    cut = resampled[:, : count * length].reshape(len(resampled), count, length).swapaxes(0, 1)
    low, high = cut.min(axis=2, keepdims=True), cut.max(axis=2, keepdims=True)
    span = (high - low)[:, :, 0]
    outside = ((span < _LOW) | (span > _HIGH)).any(axis=1)
    reason = np.where(outside, 3, 0)
    for number, bad in ((2, flat), (1, missing)):
        reason[_touched(bad, rate, starts, seconds)] = number
    texts = {1: "missing", 2: "flat", 3: "out of range"}
    skipped = {text: int((reason == k).sum()) for k, text in texts.items() if (reason == k).any()}
    keep = reason == 0
    ((cut[keep] - low[keep]) / (high - low)[keep]).astype("<f4").tofile(part)
    labels = label_windows(read.annotations, rate, starts[keep], seconds, hospital.labels)
    person = demographics_of(hospital, record, read.comments)
    return _Cut(starts[keep], labels, person, duration, skipped, read.uncalibrated)


def _flat(signal: NDArray[np.float64], rate: float) -> NDArray[np.bool_]:
    """Samples of runs that keep one value for a second or longer."""
    flat = np.zeros(signal.shape, dtype=bool)
    for row, mask in zip(signal, flat, strict=True):
        edges = np.concatenate([[0], np.flatnonzero(np.diff(row) != 0) + 1, [len(row)]])
        for i in np.flatnonzero(np.diff(edges) >= _FLAT * rate):
            mask[edges[i] : edges[i + 1]] = True
    return flat


def _resample(
    signal: NDArray[np.float64], bad: NDArray[np.bool_], rate: float, target: int
) -> NDArray[np.float64]:
    """The leads at `target` Hz; bad samples are bridged first, so that no filter sees them."""
    ratio = Fraction(target) / Fraction(rate).limit_denominator(1000)
    filled = signal.copy()
    at = np.arange(signal.shape[1])
    for row, mask in zip(filled, bad, strict=True):
        row[mask] = np.interp(at[mask], at[~mask], row[~mask]) if not mask.all() else 0.0
    if ratio == 1:
        return filled
    up, down = ratio.numerator, ratio.denominator
    return np.asarray(resample_poly(filled, up, down, axis=1, padtype="line"), dtype=np.float64)


def _touched(
    bad: NDArray[np.bool_], rate: float, starts: NDArray[np.float64], seconds: float
) -> NDArray[np.bool_]:
    total = np.concatenate([[0], np.cumsum(bad.any(axis=0))])
    first = np.floor(starts * rate + 1e-6).astype(int)
    last = np.minimum(np.ceil((starts + seconds) * rate - 1e-6).astype(int), bad.shape[1])
    return np.asarray(total[last] > total[first])


def _index(
    cuts: Sequence[_Cut], owners: Sequence[str], info: dict[str, Any], settings: WindowSettings
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


def _finish(
    partial: Path,
    index: NDArray[Any],
    info: dict[str, Any],
    parts: Sequence[Path],
    shape: tuple[int, ...],
) -> None:
    """Join the part files and write what describes them."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(index), *shape)}
    with (partial / "windows.npy").open("wb") as out:
        np.lib.format.write_array_header_1_0(out, header)
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, out, _CHUNK)
            part.unlink()
    np.save(partial / "index.npy", index)
    text = json.dumps({**info, "demographics": summary(index)}, indent=1)
    (partial / "store.json").write_text(text + "\n")


def pool(stores: Sequence[Store], directory: Path) -> Store:
    """Concatenate stores into one named "pooled"; patients and records become `site/name`.

    Raises:
        InputError: no store, two of one name, or windows of different shape.
    """
    names = [str(store.info["name"]) for store in stores]
    shapes = {(store.info["sampling_rate"], *store.windows.shape[1:]) for store in stores}
    if not stores or len(set(names)) != len(names):
        raise InputError(f"stores are {names}; allowed is one or more, each name once")
    if len(shapes) != 1:
        raise InputError(f"windows of {names} have (Hz, leads, samples) {sorted(shapes)}; "
                         "allowed is one shape")  # fmt: skip
    folders = [str(store.path.resolve()) for store in stores]
    key = hashlib.sha256(repr((_FORMAT, folders)).encode()).hexdigest()[:12]
    target = Path(directory) / f"pooled-{key}"
    if (target / "store.json").is_file():
        return Store.open(target)
    index, info = _merge(stores, names)
    with _build(target) as partial:
        parts = [partial / f"{i}.part" for i in range(len(stores))]
        for store, part in zip(stores, parts, strict=True):
            step = max(1, _CHUNK // (4 * store.windows[0].size))
            with part.open("wb") as out:
                for first in range(0, len(store.windows), step):
                    store.windows[first : first + step].tofile(out)
        _finish(partial, index, info, parts, stores[0].windows.shape[1:])
    return Store.open(target)


def _merge(stores: Sequence[Store], names: Sequence[str]) -> tuple[NDArray[Any], dict[str, Any]]:
    index = np.concatenate([store.index for store in stores])
    info = {**stores[0].info, "name": "pooled", "patients": [], "records": [], "left_out": []}
    first = 0
    for store, name in zip(stores, names, strict=True):
        rows = slice(first, first := first + len(store.index))
        for key, column in (("patients", "patient"), ("records", "record")):
            index[column][rows] += len(info[key])
            info[key] += [f"{name}/{item}" for item in store.info[key]]
        info["left_out"] += [[f"{name}/{r}", why] for r, why in store.info["left_out"]]
    for key in ("hours", "uncalibrated"):
        info[key] = sum(store.info[key] for store in stores)
    info["skipped"] = dict(sum((Counter(s.info["skipped"]) for s in stores), Counter[str]()))
    info["leads"] = list(dict.fromkeys("; ".join(s.info["leads"]) for s in stores))
    return index, info
