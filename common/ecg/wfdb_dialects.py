"""How each of the four databases writes its records: headers, comments, annotations, lists.

Headers are written here and not by wfdb, because it can write neither a gain of 0 nor the
originals' spelling; sample files and annotations are plain WFDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.ecg.rhythms import Beat, Rhythm, Timeline

Ints = NDArray[np.int64]

TWELVE_LEADS = ("I", "II", "III", "AVR", "AVL", "AVF", "V1", "V2", "V3", "V4", "V5", "V6")


@dataclass(frozen=True)
class Dialect:
    """One database's format.

    Args:
        leads: signal names in the order of the file.
        sampling_rate: Hz.
        mains_hz: frequency of the hum.
        file_format: WFDB sample format, 212 or 16.
        gain: ADC units per mV of the samples.
        gain_text: the gain as the header writes it; "0" says "not calibrated".
        resolution: ADC bits.
        baseline: ADC value of 0 mV.
        newline: line end of headers.
        sve_symbol: beat symbol of a supraventricular ectopic beat.
        length: length of a record relative to the ordinary one.
        record_list: name of the file that lists the records.
        hospital: the keys of `hospital.yaml` that differ, as YAML.
    """

    leads: tuple[str, ...]
    sampling_rate: int
    mains_hz: float
    file_format: int
    gain: int
    gain_text: str
    resolution: int
    baseline: int
    newline: str
    sve_symbol: str
    length: float
    record_list: str
    hospital: str


DIALECTS: dict[str, Dialect] = {
    "mitdb": Dialect(
        ("MLII", "V5"), 360, 60.0, 212, 200, "200", 11, 1024, "\r\n", "A", 1.0, "RECORDS",
        "leads: [[MLII, V5]]\nsubjects: record\nsame_patient: [[201, 202]]\n"
        "demographics: header\nlabels: beats+rhythm\n",
    ),
    "ltdb": Dialect(
        ("ECG1", "ECG2"), 128, 60.0, 212, 200, "0", 12, 0, "\r\n", "S", 1.5, "RECORDS",
        "leads: [[ECG1]]\nsubjects: record\ndemographics: header\nlabels: beats+rhythm\n",
    ),
    "incartdb": Dialect(
        TWELVE_LEADS, 257, 50.0, 16, 306, "306/mV", 16, 0, "\n", "A", 0.5, "RECORDS",
        "leads: [[II]]\nsubjects: subjects.csv\ndemographics: header\nlabels: beats+rhythm\n",
    ),
    "shdb-af": Dialect(
        ("CC5", "NASA"), 200, 50.0, 16, 500, "500(0)/mV", 16, 0, "\n", "A", 1.0, "RECORDS.txt",
        "leads: [[CC5]]\nsubjects: AdditionalData.csv\ndemographics: AdditionalData.csv\n"
        "labels: rhythm-comments\n",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Patient:
    """One person and the records that are theirs.

    Args:
        number: from 0, within the hospital.
        age: years.
        sex: "M" or "F".
        shares: fraction of each rhythm other than sinus.
        bundle_branch_block: "", "L" or "R".
        records: record names.
    """

    number: int
    age: int
    sex: str
    shares: dict[Rhythm, float]
    bundle_branch_block: str
    records: tuple[str, ...]


def leads_of(hospital: str, patient: Patient) -> tuple[str, ...]:
    """The leads of one patient: like 102 and 114 in mitdb, 102 has no MLII, 104 has it second."""
    if hospital == "mitdb":
        odd = {"102": ("V5", "V2"), "104": ("V5", "MLII")}
        return odd.get(patient.records[0], DIALECTS[hospital].leads)
    return DIALECTS[hospital].leads


def header(hospital: str, record: str, patient: Patient, digital: Ints) -> str:
    """The text of a .hea file; `digital` is [samples, leads]."""
    of = DIALECTS[hospital]
    leads = leads_of(hospital, patient)
    lines = [f"{record} {len(leads)} {of.sampling_rate} {len(digital)}"]
    zero = of.baseline if hospital == "mitdb" else 0
    for lead, values in zip(leads, digital.T, strict=True):
        checksum = (int(values.sum()) + 2**15) % 2**16 - 2**15
        lines.append(
            f"{record}.dat {of.file_format} {of.gain_text} {of.resolution} {zero} "
            f"{values[0]} {checksum} 0 {lead}"
        )
    lines += _comments(hospital, patient)
    return of.newline.join(lines) + of.newline


def _comments(hospital: str, patient: Patient) -> list[str]:
    if hospital == "mitdb":
        age = -1 if patient.records[0] == "103" else patient.age  # not known, as in the original
        drugs = ("Aldomet, Inderal", "None", "Digoxin", "Digoxin, Quinaglute")
        serial = 1000 + 37 * patient.number
        return [f"# {age} {patient.sex} {serial} 1629 x1", f"# {drugs[patient.number % 4]}"]
    if hospital == "ltdb":
        return [f"#Age: {patient.age}  Sex: {patient.sex}"]
    if hospital == "incartdb":
        diagnosis = ("Coronary artery disease, arterial hypertension", "Acute MI", "None")
        about = diagnosis[patient.number % len(diagnosis)]
        return [
            f"#<age>: {patient.age} <sex>: {patient.sex} <diagnoses> {about}",
            f"# patient {patient.number + 1}",
        ]
    return []


def annotate(
    hospital: str, patient: Patient, timeline: Timeline
) -> tuple[Ints, list[str], list[str]]:
    """Sample numbers, symbols and aux_notes of a record's .atr, in the database's manner."""
    of = DIALECTS[hospital]
    normal = patient.bundle_branch_block or "N"
    letters = {Beat.SINUS: normal, Beat.AFIB: normal, Beat.PVC: "V", Beat.SVE: of.sve_symbol}
    letters[Beat.NODAL] = "J"
    peaks = np.rint(timeline.times * of.sampling_rate).astype(np.int64)
    marks = _rhythm_marks(hospital, timeline, peaks)
    if hospital == "shdb-af":
        return np.array([m[0] for m in marks]), ['"'] * len(marks), [m[1] for m in marks]
    if hospital == "mitdb" and patient.number % 2 == 0:
        marks = [(sample, note + "\0") for sample, note in marks]  # half the originals end in NUL
    # A mark lies just before the beat it announces: two annotations never share a sample.
    rows = [(sample - 2, "+", note) for sample, note in marks]
    rows += [(int(p), letters[Beat(k)], "") for p, k in zip(peaks, timeline.kinds, strict=True)]
    rows.sort()
    return np.array([r[0] for r in rows]), [r[1] for r in rows], [r[2] for r in rows]


def _rhythm_marks(hospital: str, timeline: Timeline, peaks: Ints) -> list[tuple[int, str]]:
    """(sample, aux_note) at the first beat of each interval; ectopy does not end a rhythm."""
    notes = {Rhythm.AFIB: "(AFIB", Rhythm.NODAL: "(NOD"}
    marks: list[tuple[int, str]] = []
    for episode in timeline.episodes:
        note = notes.get(episode.rhythm, "(N")
        first = int(np.searchsorted(timeline.times, episode.start))
        if first == len(peaks) or timeline.times[first] >= episode.end:
            continue  # too short to hold a beat
        if not marks or marks[-1][1] != note:
            marks.append((int(peaks[first]), note))
    if hospital == "incartdb" and marks and marks[0][1] == "(N":
        marks = marks[1:]  # its marks begin with the arrhythmia: without one there are none
    return marks


def tables(hospital: str, patients: Sequence[Patient]) -> dict[str, str]:
    """The folder's text files besides the headers: name to content."""
    of = DIALECTS[hospital]
    records = [record for patient in patients for record in patient.records]
    files = {
        of.record_list: "".join(f"{record}\n" for record in records),
        "hospital.yaml": f"name: {hospital}\npath: .\n{of.hospital}",
    }
    if hospital == "incartdb":
        rows = [f"{record},{p.number + 1}\n" for p in patients for record in p.records]
        files["subjects.csv"] = "record,patient\n" + "".join(rows)
    if hospital == "shdb-af":
        rows = [
            f"{record},{p.number + 1},{p.age},{p.sex},"
            f"{'Paroxysmal' if Rhythm.AFIB in p.shares else 'None'}\n"
            for p in patients
            for record in p.records
        ]
        files["AdditionalData.csv"] = "Data_ID,Subject_ID,Age,Gender,AF_Type\n" + "".join(rows)
    return files
