"""Any bytes in a record's files give a sound recording or a RecordError of one line."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.common.ecg.laboratory import KINDS, MEMORY, Laboratory, bounded, note, pair, skip, valid


def often(examples: int) -> settings:
    return settings(derandomize=True, deadline=None, max_examples=examples, database=None)


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
