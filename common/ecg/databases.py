"""The PhysioNet databases that fedrean knows: where they lie, their hospital files, and what the
REAN paper says of them.

Sampling rate, ages and labels stand in the records' own headers, annotations and tables; the
hospital file says which and how to read them. docs/data.md explains each choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.ecg import shdb_af
from common.errors import InputError

PHYSIONET = "https://physionet.org"
_ODC_BY = "Open Data Commons Attribution License v1.0"
_GOLDBERGER = ("Goldberger AL, Amaral LAN, Glass L, et al. PhysioBank, PhysioToolkit, and "
               "PhysioNet. Circulation 2000;101(23):e215-e220. RRID:SCR_007345.")


PAPER_WINDOWS = 1_163_983
PAPER_SHARES = {"Normal": 77.3, "AFIB": 19.0, "PVC": 3.4, "SVE": 0.3}  # percent of the windows


@dataclass(frozen=True)
class Published:
    """A row of the REAN paper's Table II (arXiv:2607.06037), and where the files differ."""

    patients: int
    men: int
    women: int
    ages: tuple[int, int]  # years
    remark: str = ""


@dataclass(frozen=True)
class Database:
    """One release on PhysioNet.

    Args:
        slug: its name in addresses.
        version: of the release.
        title: its full name.
        licence: as its page states it; empty: read it there.
        citation: what its authors ask to cite, besides Goldberger et al.
        sampling_rate: Hz.
        hospital: keys of its hospital file, as YAML.
        paper: what the REAN paper says of it; None where it is not in the paper.
        select: the records that count, given the folder; None: all.
    """

    slug: str
    version: str
    title: str
    licence: str
    citation: str
    sampling_rate: int
    hospital: str
    paper: Published | None = None
    select: Callable[[Path], list[str]] | None = None

    def address(self, mirror: str = PHYSIONET) -> str:
        """Where its files lie, without a slash at the end."""
        return f"{mirror.rstrip('/')}/files/{self.slug}/{self.version}"

    def terms(self) -> str:
        """Licence, and what users must cite, a line each."""
        page = f"{PHYSIONET}/content/{self.slug}/{self.version}/"
        own = [self.citation] if self.citation else []
        return "\n".join([f"{self.title} {self.version}, {page}",
                          f"Licence: {self.licence or 'see the page'}", "Cite:", *own,
                          _GOLDBERGER]) + "\n"

    def hospital_file(self) -> str:
        """Text of a hospital.yaml that lies beside the records."""
        return f"name: {self.slug}\npath: .\n{self.hospital}"


_ALL = (
    Database(
        "mitdb", "1.0.0", "MIT-BIH Arrhythmia Database", _ODC_BY,
        "Moody GB, Mark RG. The impact of the MIT-BIH Arrhythmia Database. IEEE Eng Med Biol "
        "2001;20(3):45-50.", 360,
        # 102 and 104 have no MLII, 114 has it second; 201 and 202 are one man.
        'leads: [[MLII, V5]]\nsubjects: record\nsame_patient: [["201", "202"]]\n'
        "demographics: header\nlabels: beats+rhythm\n",
        Published(47, 25, 22, (23, 89), "two patients have no age (-1 in 103 and 219)")),
    Database(
        "ltdb", "1.0.0", "MIT-BIH Long-Term ECG Database", _ODC_BY, "", 128,
        "leads: [[ECG1]]\nsubjects: record\ndemographics: header\nlabels: beats+rhythm\n",
        Published(7, 6, 1, (46, 88), "not calibrated: 200 units per mV are assumed")),
    Database(
        "incartdb", "1.0.0", "St Petersburg INCART 12-lead Arrhythmia Database", _ODC_BY,
        "Tihonenko V, Khaustov A, Ivanov S, Rivin A, Yakushenko E. St Petersburg INCART 12-lead "
        "Arrhythmia Database. PhysioNet 2008.", 257,
        # 75 records of 32 patients, whom a comment of each header numbers.
        "leads: [[II]]\nsubjects: header\ndemographics: header\nlabels: beats+rhythm\n",
        Published(32, 17, 15, (18, 80), "its README says 17 M and 15 F, its headers 18 and 14")),
    Database(
        "shdb-af", "1.0.1", "SHDB-AF: a Japanese Holter ECG database of atrial fibrillation",
        "",
        "Tsutsui K, Brimer SB, Ben-Moshe N, et al. SHDB-AF: a Japanese Holter ECG database of "
        "atrial fibrillation. Sci Data 2025;12:454.", 200,
        f"leads: [[CC5]]\nrecords: SELECTED\nsubjects: {shdb_af.TABLE}\n"
        f"demographics: {shdb_af.TABLE}\nlabels: rhythm-comments\n",
        Published(100, 55, 45, (31, 87), "128 recordings of 122 subjects; one each of 100"),
        shdb_af.select),
    Database(
        "svdb", "1.0.0", "MIT-BIH Supraventricular Arrhythmia Database", _ODC_BY,
        "Greenwald SD. Improved detection and classification of arrhythmias in noise-corrupted "
        "electrocardiograms using contextual information. PhD thesis, Harvard-MIT 1990.", 128,
        "leads: [[ECG1]]\nsubjects: record\ndemographics: none\nlabels: beats\n"),
    Database(
        "ecgiddb", "1.0.0", "ECG-ID Database", _ODC_BY,
        "Lugovaya TS. Biometric human identification based on electrocardiogram. Master's thesis, "
        "Electrotechnical University LETI, Saint-Petersburg 2005.", 500,
        # 11 records have lost their beginning in the release itself, and fail their own checksum.
        "leads: [[ECG I]]\nsubjects: folder\ndemographics: header\nlabels: none\n"
        "checksums: ignore\n"),
)  # fmt: skip
DATABASES = {database.slug: database for database in _ALL}


def database_of(slug: str) -> Database:
    """The database of a name.

    Raises:
        InputError: none has it.
    """
    if slug not in DATABASES:
        raise InputError(f"database is {slug!r}; allowed is one of {', '.join(DATABASES)}")
    return DATABASES[slug]
