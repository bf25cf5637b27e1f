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
def renumbered(draw: st.DrawFn, data: bytes, encoding: str) -> bytes:
    """A text with one to three of its words or numbers replaced by hostile ones."""
    parts = re.split(r"([\s/x:+(),]+)", data.decode(encoding))
    for _ in range(draw(st.integers(1, 3))):
        parts[2 * draw(st.integers(0, len(parts) // 2))] = draw(st.sampled_from(NUMBERS))
    return "".join(parts).encode(draw(st.sampled_from(("utf-8", "latin-1"))), errors="replace")


def either(good: tuple[str, ...]) -> st.SearchStrategy[str]:
    """One of the plausible values, now and then a hostile one."""
    return st.integers(0, 15).flatmap(lambda n: st.sampled_from(NUMBERS if n == 0 else good))


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """A header that uses all of WFDB's fields."""
    count = draw(st.sampled_from((2, 2, 2, 3, 1)))
    first = [draw(either(("r",))), draw(either((str(count),))),
             draw(either(("250", "250.5/250(0)", "0.5", "20001"))),
             draw(either(("", "100", "30", "7", "1"))), draw(either(("", "10:00:00")))]
    lines = [" ".join(first)]
    shared = draw(either(("16", "212", "8", "310", "311", "24", "32", "61", "80", "160")))
    for lead in ("I", "II", "I")[:count]:
        kind = draw(st.sampled_from((shared, shared, shared, "16")))
        for mark, good in (("x", ("", "1", "2")), (":", ("", "0", "5")), ("+", ("", "0", "24"))):
            value = draw(either((good[0], good[0], *good)))
            kind += mark + value if value else ""
        gain = draw(either(("200", "0", "-1e2", "1000.5"))) + draw(
            either(("", "(0)", "(-5)", "/mV", "(1024)/uV", "/\u00b5V")))
        words = [draw(either(("r.dat", "r.dat", "r.dat", "r.atr"))), kind, gain]
        words += [draw(either((good,))) for good in ("12", "0", "0", "0", "0", lead)]
        lines.append(" ".join(words))
    lines += draw(st.lists(st.sampled_from(("# 69 M", "#" * 5000, "", "r.dat 16")), max_size=2))
    return draw(st.sampled_from(("\n", "\r\n", "\r"))).join(lines).encode()


def pair(code: int, low: int) -> bytes:
    return bytes([low & 255, code << 2 | low >> 8 & 3])


NOTES = (b"(AFIB", b"(N\0", b"## time resolution: 250", b"## time resolution: 0",
         b"## time resolution: " + b"9" * 200, b"## annotation type definitions", b"## x",
         b"## end of definitions", b"42 q quite new", b"1 V not normal", b"1 V", b"")  # fmt: skip


@st.composite
def annotations(draw: st.DrawFn) -> bytes:
    """Annotation codes in any order, mostly ended as they should be."""
    data = b""
    for _ in range(draw(st.integers(0, 12))):
        code = draw(st.sampled_from((1, 5, 22, 28, 22, 63, 59, 60, 61, 62, 0, 15, 42, 58)))
        if code == 63:
            note = draw(st.sampled_from(NOTES))
            length = draw(st.sampled_from((len(note),) * 9 + (255, len(note) + 1)))
            data += pair(63, length) + note + b"\0" * (len(note) % 2)
        elif code == 59:
            skip = draw(st.sampled_from((0, 5, -1, -40, 200, 2**31 - 1, -(2**31)))) % 2**32
            data += pair(59, 0) + (skip >> 16).to_bytes(2, "little")
            data += (skip & 0xFFFF).to_bytes(2, "little")
        else:
            data += pair(code, draw(st.sampled_from((0, 0, 1, 7, 60, 1023))))
    return data + draw(st.sampled_from((b"\0\0",) * 6 + (b"", b"\0", b"\0\0\0\0")))


@often(60)
@given(head=st.binary(max_size=300), samples=st.binary(max_size=300), marks=st.binary(max_size=300),
       suffix=st.sampled_from((".hea", ".edf", ".csv")))  # fmt: skip
def test_random_bytes(
    lab: Laboratory, head: bytes, samples: bytes, marks: bytes, suffix: str
) -> None:
    lab.read({suffix: head, ".dat": samples, ".atr": marks})
    lab.read({**valid("16"), ".atr": marks + b"\0\0"})


@often(100)
@given(kind=st.sampled_from(KINDS), data=st.data(), checksums=st.booleans())
def test_damaged_files(lab: Laboratory, kind: str, data: st.DataObject, checksums: bool) -> None:
    files = valid(kind)
    for suffix in data.draw(st.sets(st.sampled_from(sorted(files)), min_size=1, max_size=2)):
        files = {**files, suffix: data.draw(edited(files[suffix]))}
    lab.read(files, checksums)


@often(100)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_hostile_numbers(lab: Laboratory, kind: str, data: st.DataObject) -> None:
    files = valid(kind)
    suffix = {"edf": ".edf", "csv": ".csv"}.get(kind, ".hea")
    lab.read({**files, suffix: data.draw(renumbered(files[suffix], "latin-1"))})


@often(100)
@given(head=headers(), samples=st.integers(0, 900), data=st.data())
def test_any_header(lab: Laboratory, head: bytes, samples: int, data: st.DataObject) -> None:
    noise = np.random.default_rng(samples).integers(0, 256, samples, np.uint8).tobytes()
    lab.read({".hea": head, ".dat": noise, ".atr": data.draw(annotations())})


@often(100)
@given(marks=annotations())
def test_any_annotations(lab: Laboratory, marks: bytes) -> None:
    lab.read({**valid("16"), ".atr": marks})
