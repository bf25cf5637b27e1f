"""Any bytes in a record's files give a sound recording or a RecordError of one line."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import edfio
import numpy as np
import pytest
import wfdb
from hypothesis import given, settings
from hypothesis import strategies as st

from common.ecg.hospital_file import HospitalFile, load_hospital
from common.ecg.recording import Recording
from common.ecg.records import read_record
from common.errors import RecordError
from tests.common.ecg.made import write_hospital

Files = dict[str, bytes]  # suffix to content of record r

SECONDS = 5.0  # of this process's time, for one record of a few kB
MEMORY = 64 * 2**20
MESSAGE = 600
SECRET = b"\1\2" * 5000
KINDS = ("16", "212", "edf", "csv")


def often(examples: int) -> settings:
    return settings(derandomize=True, deadline=None, max_examples=examples, database=None)


class TooLong(BaseException):
    """Raised by the timer; no reader's `except Exception` holds it."""


class Watch:
    """Which files are opened, while it is on; Python's audit hooks cannot be taken off."""

    def __init__(self) -> None:
        self.on = False
        self.opened: list[tuple[str, int]] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self.on and event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
            self.opened.append((os.fsdecode(args[0]), int(args[2] or 0)))

    @contextmanager
    def alone(self, folder: Path) -> Iterator[None]:
        """Files are opened in the folder only (but for modules), and none for writing."""
        self.opened.clear()
        self.on = True
        try:
            yield
        finally:
            self.on = False
        for name, flags in self.opened:
            path = os.path.realpath(name)
            assert not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT), f"{name} is written"
            ours = path.startswith((str(folder) + os.sep, sys.prefix, sys.base_prefix))
            assert ours, f"{name} is read"


@contextmanager
def bounded() -> Iterator[None]:
    """Neither much time nor much memory, and no warnings."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    tracemalloc.start()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            yield
        peak = tracemalloc.get_traced_memory()[1]
        left = signal.getitimer(signal.ITIMER_VIRTUAL)[0]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        tracemalloc.stop()
    assert left > 0, "it took too long"
    assert peak < MEMORY, f"{peak} bytes of memory"


class Laboratory:
    """A hospital of one record, r, whose files are written anew for each example."""

    def __init__(self, folder: Path) -> None:
        (folder / "secret.dat").write_bytes(SECRET)
        self.folder = folder / "records"
        self.folder.mkdir()
        (folder / "file").mkdir()
        file = write_hospital(folder / "file", path="../records", leads="[[I], [II]]",
                              labels="beats+rhythm", sampling_rate="250")
        self.hospital: HospitalFile = load_hospital(file)
        self.watch = Watch()
        for kind in KINDS:  # modules that are imported late may open what they like
            self._write(valid(kind))
            assert isinstance(read_record(self.hospital, "r"), Recording)

    def read(self, files: Files, checksums: bool = False) -> Recording | RecordError:
        """What the record gives, after every promise of the readers was checked."""
        self._write(files)
        of = dataclasses.replace(self.hospital, checksums="header" if checksums else "ignore")
        with self.watch.alone(self.folder):
            found = self._attempt(of)
        after = {file.name[1:]: file.read_bytes() for file in self.folder.iterdir()}
        assert after == files
        if isinstance(found, Recording):
            check_sound(found, sum(len(content) for content in files.values()))
        else:
            message = str(found)
            assert len(message) < MESSAGE and len(message.splitlines()) == 1
            assert message.startswith("record r: ") and message.isprintable()
            assert "Warning" not in message and "MemoryError" not in message
        return found

    def _write(self, files: Files) -> None:
        for old in self.folder.iterdir():
            old.unlink()
        for suffix, content in files.items():
            (self.folder / f"r{suffix}").write_bytes(content)

    def _attempt(self, of: HospitalFile) -> Recording | RecordError:
        with bounded():
            try:
                return read_record(of, "r")
            except RecordError as error:
                return error


def check_sound(read: Recording, size: int) -> None:
    n = read.signal.shape[1]
    assert read.signal.dtype == np.float64 and read.signal.shape == (2, n) and 0 < n <= size
    assert not np.isinf(read.signal).any()
    assert read.saturated is None or (
        read.saturated.dtype == bool and read.saturated.shape == read.signal.shape)
    assert isinstance(read.sampling_rate, float) and 1 <= read.sampling_rate <= 20000
    assert [lead.casefold() for lead in read.leads] == ["i", "ii"]
    assert all(isinstance(comment, str) for comment in read.comments)
    marks = read.annotations
    if marks is not None:
        assert len(marks.sample) == len(marks.symbol) == len(marks.aux_note) == len(marks.subtype)
        assert marks.sample.dtype == np.int64 and marks.subtype.dtype.kind == "i"
        assert (marks.sample >= 0).all() and (np.diff(marks.sample) >= 0).all()
        assert (marks.sample <= n + read.sampling_rate).all()
        assert all(isinstance(text, str) for text in (*marks.symbol, *marks.aux_note))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("fuzz").resolve())


@cache
def valid(kind: str) -> Files:
    """The files of a sound record of 300 samples: WFDB in format 16 or 212, EDF or CSV."""
    digital = np.rint(300 * np.sin(np.arange(600).reshape(300, 2) / 9)).astype(int)
    with tempfile.TemporaryDirectory() as text:
        wfdb.wrann("r", "atr", np.array([5, 90, 150, 280]), ["+", "N", "V", "N"], fs=250,
                   aux_note=["(AFIB\0", "", "odd", ""], subtype=np.array([0, 1, -1, 0]),
                   chan=np.array([0, 1, 0, 0]), num=np.array([0, 0, 2, 0]),
                   write_dir=text)  # fmt: skip
        if kind == "edf":
            made = [edfio.EdfSignal(column * 5.0, 250, label=lead, physical_dimension="uV",
                                    physical_range=(-5000, 5000), digital_range=(-1000, 1000))
                    for lead, column in zip(("I", "II"), digital.T, strict=True)]
            edfio.Edf(made, data_record_duration=0.4).write(Path(text, "r.edf"))
        elif kind == "csv":
            rows = "".join(f"{a / 200},{b / 200}\n" for a, b in digital)
            Path(text, "r.csv").write_text("I,II\n" + rows)
        else:
            wfdb.wrsamp("r", 250, ["mV"] * 2, ["I", "II"], d_signal=digital, fmt=[kind] * 2,
                        adc_gain=[200.0] * 2, baseline=[0, 7], write_dir=text,
                        comments=["Age: 60  Sex: F"])  # fmt: skip
        return {file.suffix: file.read_bytes() for file in Path(text).iterdir()}


NUMBERS = (
    "", "0", "1", "2", "-1", "3", "8", "16", "24", "64", "80", "212", "310", "311", "508", "257",
    "300", "1000", "nan", "inf", "-inf", "1e400", "1e-400", "1e-320", "1e3", "0x1", "0x10", "1_0",
    "+5", "--5", ".", "-", ".5", "5.", "1000000000", "-1000000000", "2147483648", "1e9", "9" * 18,
    "9" * 30, "9" * 350, "9" * 5000, "1" * 50000, "x" * 50000, "-x" * 20000, "\u0663", "\u00b2",
    "\u00b5V", "V", "nV", "mmHg", "../secret.dat", "/etc/passwd", "~", "..", "secret.dat", "r.hea",
    "r.atr", "r.dat", "r", "#", "I", "II", "\0", "\n", "\x1c", "\x85", "\u2028", "%s", "5000",
)  # fmt: skip


@st.composite
def edited(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with some replaced, put in, left out, flipped, repeated, cut or in other order."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from((0, 1, 2, 3, 7, 40))))
        how = draw(st.sampled_from(("replace", "flip", "cut", "repeat", "lines")))
        if how == "replace":
            data = data[:start] + draw(st.binary(max_size=6)) + data[end:]
        elif how == "flip":
            mask = draw(st.integers(1, 255))
            data = data[:start] + bytes(b ^ mask for b in data[start:end]) + data[end:]
        elif how == "cut":
            data = data[:start]
        elif how == "repeat":
            data = data[:start] + data[start:end] * draw(st.sampled_from((2, 3, 300))) + data[end:]
        else:
            lines = data.splitlines(keepends=True)
            data = b"".join(draw(st.permutations(lines))) if len(lines) < 9 else data[::-1]
    return data


@st.composite
def renumbered(draw: st.DrawFn, data: bytes) -> bytes:
    """A text with one to three of its words or numbers replaced by hostile ones."""
    parts = re.split(r"([\s/x:+(),]+)", data.decode())
    for _ in range(draw(st.integers(1, 3))):
        parts[2 * draw(st.integers(0, len(parts) // 2))] = draw(st.sampled_from(NUMBERS))
    return "".join(parts).encode(draw(st.sampled_from(("utf-8", "latin-1"))), errors="replace")


EDF_FIELDS = ((0, 8), (8, 80), (88, 80), (168, 8), (176, 8), (184, 8), (192, 44), (236, 8),
              (244, 8), (252, 4), (256, 16), *((448 + 16 * i, 8) for i in range(5)), (464, 8),
              (480, 8), (496, 8), (688, 8), (696, 8))  # fmt: skip  # two signals


@st.composite
def refilled(draw: st.DrawFn, data: bytes) -> bytes:
    """An EDF file with one to three of its fields replaced by hostile ones."""
    for start, width in draw(st.lists(st.sampled_from(EDF_FIELDS), min_size=1, max_size=3)):
        text = draw(st.sampled_from((*NUMBERS, "-768", "1e308", "-1e308", "5e-324", "EDF+D")))
        field = text.encode("latin-1", errors="replace")[:width].ljust(width)
        data = data[:start] + field + data[start + width :]
    return data


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """A header that uses any of WFDB's fields, often with hostile values."""

    def one_of(*good: str) -> str:
        return draw(st.sampled_from(good))

    leads = ("I", "II", "I")[: draw(st.sampled_from((2, 2, 3)))]
    lines = [f"r {len(leads)} " + one_of("250 ", "250.5/250(0) ", "1 ")
             + one_of("30", "", "100 10:00:00", "7")]
    kind, file = one_of("16", "212", "8", "310", "311", "24", "32", "61", "80", "160"), "r.dat"
    for lead in leads:
        file, kind = one_of(file, file, file, "r.b"), one_of(kind, kind, kind, "16")
        gain = one_of("200", "0", "-1e2", "100.5") + one_of("", "(0)", "(-5)/mV", "/uV", "/\u00b5V")
        layout = one_of("", "", "x2") + one_of("", "", ":0", ":5") + one_of("", "", "+0", "+24")
        lines.append(f"{file} {kind}{layout} {gain} {one_of('0', '12', '8')} 0 0 0 0 {lead}")
    lines += draw(st.lists(st.sampled_from(("# 69 M", "#" * 5000, "", "r.dat 16")), max_size=1))
    data = draw(st.sampled_from(("\n", "\r\n", "\r"))).join(lines).encode()
    return draw(renumbered(data)) if draw(st.booleans()) else data


def pair(code: int, low: int) -> bytes:
    return bytes([low & 255, code << 2 | low >> 8 & 3])


def note(text: bytes, length: int = -1) -> bytes:
    return pair(63, len(text) if length < 0 else length) + text + b"\0" * (len(text) % 2)


def skip(samples: int) -> bytes:
    """Its halves lie high first, the bytes of each low first."""
    low_first = (samples % 2**32).to_bytes(4, "little")
    return pair(59, 0) + low_first[2:] + low_first[:2]


NOTES = (b"(AFIB", b"(N\0", b"## time resolution: 250", b"## time resolution: 0",
         b"## time resolution: " + b"9" * 200, b"## annotation type definitions", b"## x",
         b"## end of definitions", b"42 q quite new", b"1 V not normal", b"1 V", b"")  # fmt: skip
JUMPS = (0, 5, 9, 60, 60, 200, -1, -40, 2**31 - 1, -(2**31))


@st.composite
def annotations(draw: st.DrawFn) -> bytes:
    """Annotations with jumps and fields, mostly ordered and ended as they should be."""
    data = b""
    for _ in range(draw(st.integers(0, 8))):
        jumps = draw(st.lists(st.sampled_from(JUMPS), max_size=1)) if draw(st.booleans()) else []
        data += b"".join(map(skip, jumps))
        code = draw(st.sampled_from((1, 5, 28, 22, 22, 15, 42, 58, 0)))
        data += pair(code, draw(st.sampled_from((1, 0, 0, 7, 60, 1023))))
        for field in draw(st.lists(st.sampled_from((63, 60, 61, 62)), max_size=3, unique=True)):
            text = draw(st.sampled_from(NOTES))
            data += note(text) if field == 63 else pair(field, draw(st.integers(0, 255)))
    odd = st.sampled_from((pair(63, 255), note(b"(N"), skip(3), pair(61, 1), b"\0\0", b"\0"))
    data += draw(odd) if draw(st.integers(0, 4)) == 4 else b""
    return data + draw(st.sampled_from((b"\0\0", b"\0\0", b"\0\0", b"", b"\0\0\0\0")))


@often(100)
@given(head=st.binary(max_size=300), samples=st.binary(max_size=300), marks=st.binary(max_size=300),
       suffix=st.sampled_from((".hea", ".edf", ".csv")))  # fmt: skip
def test_random_bytes(
    lab: Laboratory, head: bytes, samples: bytes, marks: bytes, suffix: str
) -> None:
    lab.read({suffix: head, ".dat": samples, ".atr": marks})
    lab.read({**valid("csv"), ".atr": marks + b"\0\0"})


@often(200)
@given(kind=st.sampled_from(KINDS), data=st.data(), checksums=st.booleans())
def test_damaged_files(lab: Laboratory, kind: str, data: st.DataObject, checksums: bool) -> None:
    files = valid(kind)
    for suffix in data.draw(st.sets(st.sampled_from(sorted(files)), min_size=1, max_size=2)):
        files = {**files, suffix: data.draw(edited(files[suffix]))}
    lab.read(files, checksums)


@often(200)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_hostile_numbers(lab: Laboratory, kind: str, data: st.DataObject) -> None:
    files = valid(kind)
    suffix = {"edf": ".edf", "csv": ".csv"}.get(kind, ".hea")
    change = refilled if kind == "edf" else renumbered
    lab.read({**files, suffix: data.draw(change(files[suffix]))})


@often(200)
@given(head=headers(), samples=st.sampled_from((1000, 1000, 999, 301, 120, 60, 59, 1, 0)))
def test_any_header(lab: Laboratory, head: bytes, samples: int) -> None:
    noise = np.random.default_rng(samples).integers(0, 256, samples, np.uint8).tobytes()
    lab.read({".hea": head, ".dat": noise, ".b": noise[::-1], ".atr": b"\0\0"})


@often(200)
@given(marks=annotations())
def test_any_annotations(lab: Laboratory, marks: bytes) -> None:
    lab.read({**valid("csv"), ".atr": marks})


def test_what_the_readers_may_not_do_is_noticed(lab: Laboratory) -> None:
    with pytest.raises(AssertionError, match="secret.dat is read"), lab.watch.alone(lab.folder):
        (lab.folder / "../secret.dat").read_bytes()
    with pytest.raises(AssertionError, match="r.x is written"), lab.watch.alone(lab.folder):
        (lab.folder / "r.x").write_bytes(b"")
    with pytest.raises(AssertionError, match="bytes of memory"), bounded():
        np.empty(MEMORY, np.uint8)
    with pytest.raises(RuntimeWarning), bounded():
        np.float64(1e308) * 10


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
