"""Records that once crashed a reader, stalled it, filled memory or were silently misread."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from common.ecg.recording import Recording
from tests.common.ecg.laboratory import Files, Laboratory, note, pair, skip, valid


def altered(kind: str, suffix: str, old: str, new: str) -> Files:
    """The files of a sound record, with a text of one replaced once."""
    files = valid(kind)
    assert old.encode() in files[suffix]
    return {**files, suffix: files[suffix].replace(old.encode(), new.encode(), 1)}


@pytest.mark.parametrize(("old", "new", "words"), [  # and what came of each before
    ("250 300", "nan 300", "sampling rate is 'nan'; allowed"),  # 250 Hz
    ("250 300", "1e3 300", "sampling rate is '1e3'; allowed"),  # 1 Hz
    ("250 300", "9" * 400 + " 300", "sampling rate is '999"),  # OverflowError
    ("250 300", "250 3OO", "samples is '3OO'; allowed"),  # 3 samples
    ("r 2 250", "r " + "9" * 900 + " 250", "signals is '999"),  # 900 digits in the message
    ("r 2 250", "1" * 60000, "of 1000 characters"),  # minutes in a regular expression
    ("# Age", "a 1\n" * 50000, "50004 lines; allowed are 1 to 257"),  # a minute
    ("# Age", "# " + "x" * 2**20, "longer than 1048576 bytes"),
    ("16 200", "16:900000000 200", "skew is 900000000; allowed is less than its 300"),  # 3.6 GB
    ("16 200", "16x-1 200", "format is '16x-1'; allowed"),  # gain -1
    ("16 200", "16x0 200", "0 samples per frame; allowed"),  # ZeroDivisionError
    ("16 200", "8 200", "format 8, 16; allowed is one"),  # format 8 for both
    ("200.0(0)", "1e-320(0)", "gain is '1e-320(0)/mV'; allowed"),  # infinite volts
    ("200.0(0)", "1e400(0)", "gain is '1e400(0)/mV'; allowed"),  # 0 mV throughout
    ("200.0(0)", "200(9999999999)", "baseline is 9999999999; allowed"),
    (" 0 I\n", f" 0 {'x' * 900}\n", "(904 characters); wanted is I"),  # all in the message
    (" 0 I\n", " 0 \0\x1b[31m\n", r"\x00\x1b[31m, II; wanted is I"),  # a terminal's colours
    ("r.dat", "../secret.dat", "signal line"),
    ("r.dat", "/etc/passwd", "signal line"),
    ("r.dat", ".", "signal file is '.'; allowed is a plain name"),
])  # fmt: skip
def test_a_header_is_refused(lab: Laboratory, old: str, new: str, words: str) -> None:
    found = lab.read(altered("16", ".hea", old, new))
    assert words in str(found)


def test_signals_of_one_file_are_consecutive(lab: Laboratory) -> None:
    """Else wfdb gives one's samples to the other."""
    files = altered("16", ".hea", "r 2", "r 3")
    files[".hea"] = files[".hea"].replace(b" 0 I\n", b" 0 I\nr.b 16 200 16 0 0 0 0 V\n")
    assert "signals [0, 2]" in str(lab.read({**files, ".b": bytes(600)}))


@pytest.mark.parametrize("unit", [b"/uV", "/\u00b5V".encode(), "/\u03bcV".encode(), b"/\xb5V"])
def test_microvolts_in_any_encoding(lab: Laboratory, unit: bytes) -> None:
    """In wfdb's ASCII the Greek one reads as V."""
    millivolts, files = lab.read(valid("16")), valid("16")
    read = lab.read({**files, ".hea": files[".hea"].replace(b"/mV", unit)})
    assert isinstance(read, Recording) and isinstance(millivolts, Recording)
    np.testing.assert_allclose(read.signal, millivolts.signal / 1000)


def test_a_skewed_lead_has_no_checksum_of_its_own(lab: Laboratory) -> None:
    read = lab.read(altered("16", ".hea", "16 200", "16:5 200"), checksums=True)
    assert isinstance(read, Recording) and np.isnan(read.signal[0, -5:]).all()


def test_format_8_has_differences(lab: Laboratory) -> None:
    """Its samples may pass -128, which is neither missing nor the end of a range."""
    head = b"r 2 250 200\nr.dat 8 200 0 0 0 0 0 I\nr.dat 8 200 0 0 0 0 0 II\n"
    read = lab.read({".hea": head, ".dat": bytes([0xFF, 0]) * 128 + bytes([1, 0]) * 72})
    assert isinstance(read, Recording) and read.saturated is None
    assert read.signal[0].min() == -128 / 200


END = b"\0\0"
DEFINED = b"".join(pair(22, 0) + note(text) for text in (
    b"## time resolution: 250", b"## annotation type definitions", b"42 q quite new",
    b"43 W another", b"## end of definitions"))  # fmt: skip


@pytest.mark.parametrize(("marks", "words"), [
    (pair(22, 0) + note(b"## x") + END, "notes that begin with ##"),  # endless
    (DEFINED + DEFINED + END, "notes that begin with ##"),  # endless
    (pair(1, 5) + note(b"(N") + note(b"(AFIB") + pair(28, 5) + END, "byte 6 has field 63"),
    (note(b"(N") + END, "byte 0 has field 63"),  # an annotation of code 63
    (pair(1, 5) + pair(63, 40) + END, "last field is 40 bytes longer than the file"),
    (pair(1, 5) + skip(40) + END, "cannot be read"),
    (pair(1, 5) + END + pair(1, 5) + END, "byte 2 has its end marker; 4 bytes follow"),  # 2 beats
    (pair(1, 5) + skip(-40) + pair(1, 5) + END, "times must rise from 0"),
    (pair(1, 5) + skip(2**31 - 1) + pair(1, 5) + END, "the record has 300"),
    (pair(22, 0) + note(b"## time resolution: 125") + END, "counts at 125 Hz"),  # wrong times
])  # fmt: skip
def test_annotations_are_refused(lab: Laboratory, marks: bytes, words: str) -> None:
    assert words in str(lab.read({**valid("16"), ".atr": marks}))


def test_annotations_of_every_code(lab: Laboratory) -> None:
    """Those without a meaning have no symbol; wfdb's own definitions displace its first codes."""
    marks = DEFINED + b"".join(pair(code, 3) for code in (1, 5, 42, 43, 44, 58)) + END + END
    read = lab.read({**valid("16"), ".atr": marks})
    assert isinstance(read, Recording) and read.annotations is not None
    assert read.annotations.symbol.tolist() == ["N", "V", "q", "W", "", ""]
    assert read.annotations.sample.tolist() == [3, 6, 9, 12, 15, 18]
    assert read.annotations.aux_note == ("",) * 6


@pytest.mark.parametrize(("start", "text", "words"), [
    (0, "\xffBIOSEMI", "version is "),  # 24 bits read as 16
    (168, "01.01.99", ""),
    (184, "-99999  ", "header bytes is '-99999'; allowed is 768"),
    (236, "0       ", "promises 0"),
    (236, "9       ", "holds 3 data records of 400 bytes; its header promises 9"),  # a warning
    (236, "-1      ", ""),
    (236, "2       ", ""),  # what is behind the promised is no sample
    (244, "0       ", "cannot be read"),
    (244, "nan     ", "sampling rate is nan"),
    (252, "9999", "signals is '9999'; allowed is 1 to 256"),
    (464, "x       ", "lead I has a range that is no number"),  # numbers taken for volts
    (480, "-5000   ", "physical range -5000 to -5000"),  # a warning, numbers taken for volts
    (480, "nan     ", "physical range -5000 to nan"),  # no sample at all
    (480, "1e308   ", "physical range -5000 to 1e+308"),  # infinite volts
    (496, "1000    ", "digital range 1000 to 1000"),
    (496, "-40000  ", "digital range -40000 to 1000"),
    (688, "-4      ", "samples per data record is '-4'; allowed is 0 to"),
    (688, "99999999", "holds 0 data records"),
    (8, "X F 01-JAN-99999999999 X", ""),  # OverflowError
    (256, "\x1b[2J\n", r"\x1b[2J, II; wanted is I"),  # two lines
])  # fmt: skip
def test_an_edf_header(lab: Laboratory, start: int, text: str, words: str) -> None:
    data, field = valid("edf")[".edf"], text.encode("latin-1")
    files = {".edf": data[:start] + field + data[start + len(field) :]}
    found = lab.read(files)
    assert isinstance(found, Recording) if words == "" else words in str(found)
    if isinstance(found, Recording):
        assert found.signal.shape[1] == (200 if text.startswith("2 ") else 300)


@pytest.mark.parametrize(("text", "words"), [
    ('"I\nI",II\n1,2\n', "leads are I I, II; wanted is I"),  # two lines
    ("I,I\0\n1,2\n", r"leads are I, I\x00; wanted is II"),
    ("x" * 5000 + ",II\n1,2\n", "(5004 characters); wanted is I"),
    ("I,II\n1_0,2\n", "cells that are no numbers"),  # 10
    ("I,II\n1e308,2\n3,1e400\n", ""),
])  # fmt: skip
def test_a_table(lab: Laboratory, text: str, words: str) -> None:
    found = lab.read({".csv": text.encode()})
    assert isinstance(found, Recording) if words == "" else words in str(found)


def test_infinite_volts_are_missing(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those too that are so in millivolts only, and without a warning."""
    monkeypatch.setattr(lab, "hospital", dataclasses.replace(lab.hospital, unit="V"))
    read = lab.read({".csv": b"I,II\n1e308,2\n3,1e400\n"})
    assert isinstance(read, Recording)
    np.testing.assert_array_equal(read.signal, [[np.nan, 3000], [2000, np.nan]])
