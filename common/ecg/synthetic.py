"""The embedded cohort: four synthetic hospitals, written as real WFDB records.

Each hospital has the shape of one database of the REAN paper, its leads, sampling rate, sample
format, header comments and annotation dialect, so that everything downstream meets the quirks
of the originals without a download. Every patient is drawn from (seed, hospital, patient)
alone: a larger cohort begins with the smaller one.
"""

from __future__ import annotations

import json
import math
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import wfdb
from numpy.typing import NDArray

from common.ecg.nuisances import add_nuisances
from common.ecg.rhythms import Rhythm, draw_timeline
from common.ecg.waveforms import draw_morphology, of_another_population, render
from common.ecg.wfdb_dialects import DIALECTS, Patient, annotate, header, leads_of, tables
from common.errors import InputError

HOSPITALS = ("mitdb", "ltdb", "incartdb", "shdb-af")
MARKER = ".fedrean-synthetic.json"

_MAX_PATIENTS = 9000  # record names keep their width
_MAX_MINUTES = 1440.0
# Which rhythms a patient has. Any two rows hold every class, so two patients suffice.
_ROLES = (
    {Rhythm.AFIB: 0.29, Rhythm.PVC: 0.12},
    {Rhythm.AFIB: 0.29, Rhythm.SVE: 0.09},
    {Rhythm.PVC: 0.12, Rhythm.SVE: 0.09},
    {Rhythm.AFIB: 0.25, Rhythm.PVC: 0.12, Rhythm.SVE: 0.09},
)


@dataclass(frozen=True)
class CohortSettings:
    """Size and seed of the synthetic consortium.

    Args:
        patients: patients per hospital, 2 to 9000.
        minutes: length of an ordinary record, 1 to 1440 min. Records of ltdb are half as long
            again; a patient of incartdb has two or three records of half the length. Windows of
            8 s show every class in every third of a hospital from about 5 min on.
        seed: not negative.
        shift: how far patients and their noise differ from the usual population, from 0 (not at
            all, as those of `public_store`) to 1.

    Raises:
        InputError: a value is out of its range.
    """

    patients: int = 8
    minutes: float = 10.0
    seed: int = 0
    shift: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not _is_integer(self.patients) or not 2 <= self.patients <= _MAX_PATIENTS:
            raise InputError(
                f"patients is {self.patients!r}; allowed is an integer from 2 to {_MAX_PATIENTS}"
            )
        number = isinstance(self.minutes, int | float) and not isinstance(self.minutes, bool)
        if not number or not (math.isfinite(self.minutes) and 1 <= self.minutes <= _MAX_MINUTES):
            raise InputError(f"minutes is {self.minutes!r}; allowed is 1 to {_MAX_MINUTES:g}")
        if not _is_integer(self.seed) or self.seed < 0:
            raise InputError(f"seed is {self.seed!r}; allowed is an integer from 0 on")
        if not isinstance(self.shift, int | float) or not 0 <= self.shift <= 1:
            raise InputError(f"shift is {self.shift!r}; allowed is 0 to 1")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def write_consortium(
    directory: Path, settings: CohortSettings, hospitals: Sequence[str] = HOSPITALS
) -> list[Path]:
    """Write synthetic hospitals, one folder each, as WFDB records with a `hospital.yaml`.

    The same settings give the same bytes. A folder appears whole or not at all. A folder of an
    earlier call is replaced.

    Args:
        directory: parent of the hospitals' folders; made if missing.
        settings: size and seed.
        hospitals: which of `HOSPITALS` to write.

    Returns:
        The `hospital.yaml` files, in the order of `hospitals`.

    Raises:
        InputError: an unknown, repeated or missing hospital, or a folder in the way that this
            function did not write or to which someone added files.
    """
    names = tuple(hospitals)
    for name in names:
        if name not in HOSPITALS:
            raise InputError(f"hospital is {name!r}; allowed is one of {', '.join(HOSPITALS)}")
    if not names or len(set(names)) != len(names):
        raise InputError(f"hospitals is {names!r}; allowed is one or more, each once")
    directory = Path(directory)
    try:
        if directory.exists() and not directory.is_dir():
            raise InputError(f"directory is {str(directory)!r}; allowed is a folder, not a file")
        for name in names:  # before any work: a refusal leaves every folder as it was
            _check_replaceable(directory / name)
        directory.mkdir(parents=True, exist_ok=True)
        return [_write_hospital(directory, name, settings) for name in names]
    except OSError as error:
        raise InputError(f"directory is '{directory}'; it cannot be written: {error}") from None


def _check_replaceable(folder: Path) -> None:
    """Refuse to replace anything but an own folder: a ledger might lie there."""
    if not folder.exists() and not folder.is_symlink():
        return
    refusal = f"folder is {str(folder)!r}; allowed is a new one or one that fedrean synthesized"
    if folder.is_symlink() or not folder.is_dir():
        raise InputError(refusal)
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    if not present:
        return
    try:
        written = set(json.loads((folder / MARKER).read_text())["files"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(refusal) from None
    foreign = sorted(present - written - {MARKER})
    if foreign:
        raise InputError(f"{refusal}, with nothing added; it holds {foreign[0]!r} besides")


def _write_hospital(directory: Path, hospital: str, settings: CohortSettings) -> Path:
    target = directory / hospital
    token = secrets.token_hex(4)
    partial, old = (directory / f".{hospital}-{token}.{end}" for end in ("partial", "old"))
    partial.mkdir()
    try:
        patients = [draw_patient(hospital, i, settings.seed) for i in range(settings.patients)]
        for patient in patients:
            _write_patient(partial, hospital, patient, settings)
        for name, text in tables(hospital, patients).items():
            (partial / name).write_text(text, newline="")
        files = sorted(path.name for path in partial.iterdir())
        marker = {"settings": asdict(settings), "hospital": hospital, "files": files}
        (partial / MARKER).write_text(json.dumps(marker, indent=1) + "\n")
        if target.exists():
            target.rename(old)
        partial.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    return target / "hospital.yaml"


def draw_patient(hospital: str, number: int, seed: int) -> Patient:
    """Draw who a patient is, from (seed, hospital, number) alone.

    Sexes alternate within pairs and rhythms within fours, in an order drawn per group: a small
    hospital has both sexes and every class, and neither tells the other.
    """
    rng = _generator(seed, hospital, number, 0)
    pair = _generator(seed, hospital, number // 2, 1)
    four = _generator(seed, hospital, number // 4, 2)
    sex = "MF"[int(pair.permutation(2)[number % 2])]
    shares = dict(_ROLES[int(four.permutation(4)[number % 4])])
    if hospital == "shdb-af" and Rhythm.SVE in shares:
        shares[Rhythm.NODAL] = 0.09  # beats are not annotated there: only a rhythm can show it
    block = {5: "L", 6: "R"}.get(number, "") if hospital == "mitdb" else ""
    records = _record_names(hospital, number)
    return Patient(number, int(rng.integers(24, 90)), sex, shares, block, records)


def _record_names(hospital: str, number: int) -> tuple[str, ...]:
    if hospital == "mitdb":  # the second patient is the man of 201 and 202
        return ("201", "202") if number == 1 else (str(100 + number + 2 * (number >= 101)),)
    if hospital == "ltdb":
        return (str(14046 + number),)
    if hospital == "shdb-af":
        return (f"{number + 1:03d}",)
    first = 1 + 7 * (number // 3) + 2 * (number % 3)  # two, two and three records in turn
    return tuple(f"I{first + i:02d}" for i in range(3 if number % 3 == 2 else 2))


def _write_patient(folder: Path, hospital: str, patient: Patient, settings: CohortSettings) -> None:
    dialect, leads = DIALECTS[hospital], leads_of(hospital, patient)
    morphology = draw_morphology(
        _generator(settings.seed, hospital, patient.number, 3),
        patient.age,
        patient.sex,
        patient.bundle_branch_block,
    )
    morphology = of_another_population(morphology, settings.shift)
    for order, record in enumerate(patient.records):
        rng = _generator(settings.seed, hospital, patient.number, 4 + order)
        timeline = draw_timeline(rng, 60 * settings.minutes * dialect.length, patient.shares)
        clean = render(morphology, timeline, dialect.sampling_rate, leads, rng)
        signal = add_nuisances(clean, dialect.sampling_rate, dialect.mains_hz, rng,
                               1 + settings.shift)
        digital = _digitize(signal, hospital)
        (folder / f"{record}.dat").write_bytes(_pack(digital, dialect.file_format))
        text = header(hospital, record, patient, digital)
        (folder / f"{record}.hea").write_text(text, newline="")
        samples, symbols, notes = annotate(hospital, patient, timeline)
        wfdb.wrann(record, "atr", samples, symbols, aux_note=notes, write_dir=str(folder))


def _generator(seed: int, hospital: str, number: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, HOSPITALS.index(hospital), number, stream])


def _digitize(signal: NDArray[np.float64], hospital: str) -> NDArray[np.int64]:
    """ADC values within the converter's range, [samples, leads]."""
    dialect = DIALECTS[hospital]
    half = 2 ** (dialect.resolution - 1)  # the lowest signed value means "invalid" in WFDB
    low, high = (0, 2 * half - 1) if dialect.baseline else (1 - half, half - 1)
    digital = np.rint(signal.T * dialect.gain).astype(np.int64) + dialect.baseline
    return np.clip(digital, low, high)


def _pack(digital: NDArray[np.int64], file_format: int) -> bytes:
    """Bytes of a .dat file; format 212 puts two 12-bit samples into three bytes."""
    flat = digital.ravel()  # (samples * leads,), interleaved
    if file_format == 16:
        return flat.astype("<i2").tobytes()
    first, second = flat[0::2] & 0xFFF, flat[1::2] & 0xFFF  # two leads: the count is even
    high = (first >> 8) | ((second >> 8) << 4)
    return np.stack([first & 0xFF, high, second & 0xFF], axis=1).astype(np.uint8).tobytes()
