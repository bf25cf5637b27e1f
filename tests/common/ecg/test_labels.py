"""Labels of windows of 10 s at 1 Hz; bits: Normal 1, AFIB 2, PVC 4, SVE 8."""

from __future__ import annotations

import numpy as np
import pytest

from common.ecg.labels import Annotations, label_windows


def annotate(*rows: tuple[int, str, str]) -> Annotations:
    samples, symbols, notes = zip(*rows, strict=True)
    return Annotations(np.array(samples), np.array(symbols), notes,
                       np.zeros(len(samples), dtype=int))


STARTS = np.arange(6) * 10.0
MIXED = annotate(
    (3, "V", ""), (8, "+", "(N\0"), (12, "a", ""), (13, "E", ""), (20, "J", ""), (34, "N", ""),
    (35, "+", "(AFL\0"), (36, "V", ""), (44, "+", "(N"), (51, "F", ""),
)  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "strict", "paper"),
    [
        ("beats+rhythm", [6, 4, 8, 2, 1, 1], [4, 4, 8, 2, 1, 1]),
        ("beats", [6, 6, 10, 6, 3, 3], [4, 4, 8, 4, 1, 1]),
        ("none", [15] * 6, [1] * 6),
    ],
)
def test_labels_by_dialect(dialect: str, strict: list[int], paper: list[int]) -> None:
    found = label_windows(MIXED, 1.0, STARTS, 10.0, dialect)
    assert [mask.tolist() for mask in found] == [strict, paper]
    assert all(mask.dtype == np.uint8 for mask in found)


def test_labels_of_rhythm_comments_and_without_annotations() -> None:
    notes = annotate((5, '"', "(AFIB"), (20, '"', "(N\0"), (30, '"', "(NOD"), (45, '"', "(N"))
    strict, paper = label_windows(notes, 1.0, STARTS, 10.0, "rhythm-comments")
    assert strict.tolist() == [2, 2, 15, 13, 15, 15] and paper.tolist() == [2, 2, 1, 1, 1, 1]
    strict, paper = label_windows(None, 1.0, STARTS, 10.0, "beats+rhythm")
    assert set(strict) == {15} and set(paper) == {1}
    unmarked = annotate((3, "A", ""))
    strict, _ = label_windows(unmarked, 1.0, STARTS[:2], 10.0, "beats+rhythm")
    assert strict.tolist() == [10, 3]


@pytest.mark.parametrize(("symbol", "bit"), [
    *((s, 4) for s in "VEr"), *((s, 8) for s in "AaJS"),
    *((s, 1) for s in ("N", "L", "R", "B", "e", "j", "n", "F", "/", "f", "x", "|", "~", '"')),
])  # fmt: skip
def test_every_beat_has_its_aami_class(symbol: str, bit: int) -> None:
    marks = annotate((0, "+", "(N"), (5, symbol, ""))
    strict, paper = label_windows(marks, 1.0, STARTS[:1], 10.0, "beats+rhythm")
    assert (strict.tolist(), paper.tolist()) == ([bit], [bit])


@pytest.mark.parametrize(("first", "last", "bit"), [(0, 5, 2), (0, 4, 4), (5, 10, 2), (6, 10, 4)])
def test_half_a_window_of_fibrillation_outranks_its_beats(first: int, last: int, bit: int) -> None:
    marks = annotate((-1, "+", "(N"), (first, "+", "(AFIB"), (1, "V", ""), (2, "A", ""),
                     (last, "+", "(N"))  # fmt: skip
    order = np.argsort(marks.sample, kind="stable")
    marks = Annotations(marks.sample[order], marks.symbol[order],
                        tuple(marks.aux_note[i] for i in order), marks.subtype)  # fmt: skip
    strict, paper = label_windows(marks, 1.0, STARTS[:1], 10.0, "beats+rhythm")
    assert strict.tolist() == paper.tolist() == [bit]


def test_a_beat_on_a_border_belongs_to_the_later_window() -> None:
    marks = annotate((0, "+", "(N"), (10, "V", ""))
    _, paper = label_windows(marks, 1.0, STARTS[:2], 10.0, "beats+rhythm")
    assert paper.tolist() == [1, 4]


@pytest.mark.parametrize("unknown", ["Q", "?"])
def test_an_unclassified_beat_is_not_guessed(unknown: str) -> None:
    marks = annotate((0, "+", "(N"), (1, unknown, ""), (11, unknown, ""), (12, "A", ""),
                     (21, unknown, ""), (22, "V", ""))  # fmt: skip
    strict, paper = label_windows(marks, 1.0, STARTS[:3], 10.0, "beats+rhythm")
    assert strict.tolist() == [13, 12, 4] and paper.tolist() == [1, 8, 4]
    strict, paper = label_windows(marks, 1.0, STARTS[:3], 10.0, "beats")
    assert strict.tolist() == [15, 14, 6] and paper.tolist() == [1, 8, 4]


def test_ventricular_flutter_is_none_of_the_four() -> None:
    marks = annotate((0, "+", "(N"), (11, "[", ""), (13, "!", ""), (15, "]", ""))
    strict, paper = label_windows(marks, 1.0, STARTS[:2], 10.0, "beats+rhythm")
    assert strict.tolist() == [1, 15] and paper.tolist() == [1, 1]
