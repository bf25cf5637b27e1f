"""A record whose files are written anew for each example, and what no reader may do with it."""

from __future__ import annotations

import dataclasses
import os
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
import wfdb

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


def pair(code: int, low: int) -> bytes:
    return bytes([low & 255, code << 2 | low >> 8 & 3])


def note(text: bytes, length: int = -1) -> bytes:
    return pair(63, len(text) if length < 0 else length) + text + b"\0" * (len(text) % 2)


def skip(samples: int) -> bytes:
    """Its halves lie high first, the bytes of each low first."""
    low_first = (samples % 2**32).to_bytes(4, "little")
    return pair(59, 0) + low_first[2:] + low_first[:2]
