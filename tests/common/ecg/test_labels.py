"""Labels of windows of 10 s at 1 Hz; bits: Normal 1, AFIB 2, PVC 4, SVE 8."""

from __future__ import annotations

import numpy as np
import pytest

from common.ecg.labels import Annotations, label_windows


def annotate(*rows: tuple[int, str, str]) -> Annotations:
    samples, symbols, notes = zip(*rows, strict=True)
    return Annotations(np.array(samples), symbols, notes)


STARTS = np.arange(6) * 10.0
MIXED = annotate(
    (3, "V", ""), (8, "+", "(N\0"), (12, "a", ""), (13, "E", ""), (20, "J", ""), (34, "N", ""),
    (35, "+", "(AFL\0"), (36, "V", ""), (44, "+", "(N"), (51, "Q", ""),
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
