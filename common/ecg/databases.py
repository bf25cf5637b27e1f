"""The PhysioNet databases that fedrean knows: where they lie, and their hospital files.

The rest of what a database is like (subjects, ages, labels) stands in its own headers and tables;
the hospital file says how to read it.
"""

from __future__ import annotations

from dataclasses import dataclass

from common.errors import InputError

PHYSIONET = "https://physionet.org"
_ODC_BY = "Open Data Commons Attribution License v1.0"
_GOLDBERGER = ("Goldberger AL, Amaral LAN, Glass L, et al. PhysioBank, PhysioToolkit, and "
               "PhysioNet. Circulation 2000;101(23):e215-e220. RRID:SCR_007345.")


@dataclass(frozen=True)
class Database:
    """One release on PhysioNet.

    Args:
        slug: its name in addresses.
        version: of the release.
        title: its full name.
        licence: as its page states it; empty: read it there.
        citation: what its authors ask to cite, besides Goldberger et al.
        hospital: keys of its hospital file, as YAML.
    """

    slug: str
    version: str
    title: str
    licence: str
    citation: str
    hospital: str

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
        "2001;20(3):45-50.",
        # 201 and 202 are one man.
        'leads: [[MLII, V5]]\nsubjects: record\nsame_patient: [["201", "202"]]\n'
        "demographics: header\nlabels: beats+rhythm\n"),
    Database(
        "ltdb", "1.0.0", "MIT-BIH Long-Term ECG Database", _ODC_BY, "",
        "leads: [[ECG1]]\nsubjects: record\ndemographics: header\nlabels: beats+rhythm\n"),
    Database(
        "incartdb", "1.0.0", "St Petersburg INCART 12-lead Arrhythmia Database", _ODC_BY,
        "Tihonenko V, Khaustov A, Ivanov S, Rivin A, Yakushenko E. St Petersburg INCART 12-lead "
        "Arrhythmia Database. PhysioNet 2008.",
        "leads: [[II]]\nsubjects: header\ndemographics: header\nlabels: beats+rhythm\n"),
    Database(
        "shdb-af", "1.0.1", "SHDB-AF: a Japanese Holter ECG database of atrial fibrillation",
        "",
        "Tsutsui K, Brimer SB, Ben-Moshe N, et al. SHDB-AF: a Japanese Holter ECG database of "
        "atrial fibrillation. Sci Data 2025;12:454.",
        # 005 and 020 are the same recording.
        'leads: [[CC5]]\nsubjects: record\nsame_patient: [["005", "020"]]\n'
        "demographics: AdditionalData.csv\nlabels: rhythm-comments\n"),
    Database(
        "svdb", "1.0.0", "MIT-BIH Supraventricular Arrhythmia Database", _ODC_BY,
        "Greenwald SD. Improved detection and classification of arrhythmias in noise-corrupted "
        "electrocardiograms using contextual information. PhD thesis, Harvard-MIT 1990.",
        "leads: [[ECG1]]\nsubjects: record\ndemographics: none\nlabels: beats\n"),
    Database(
        "ecgiddb", "1.0.0", "ECG-ID Database", _ODC_BY,
        "Lugovaya TS. Biometric human identification based on electrocardiogram. Master's thesis, "
        "Electrotechnical University LETI, Saint-Petersburg 2005.",
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
