"""The sets of the REAN paper: who is in them, how many of each, and the same rows each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from common.ecg.store import INDEX
from common.ecg.subsets import (
    Classes,
    Indices,
    balanced_set,
    balanced_training_set,
    composition,
    natural_subset,
    shared_set,
)
from common.errors import InputError

Made = tuple[NDArray[Any], Classes]
TRAIN, VALIDATION, TEST = range(3)
MAN, WOMAN, UNKNOWN = 0, 1, -1
SIZED = [shared_set, natural_subset, balanced_training_set]
ALL = [*SIZED, balanced_set]


def make(blocks: list[tuple[int, int, bool, int, int, int]], mix: int | None = None) -> Made:
    """Rows of (patient, sex, reserved, part, class, windows), in this order or mixed."""
    rows = [block[:5] for block in blocks for _ in range(block[5])]
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    if mix is not None:
        table = np.random.default_rng(mix).permutation(table)
    index = np.zeros(len(table), dtype=INDEX)
    for column, name in enumerate(("patient", "sex", "reserved", "part")):
        index[name] = table[:, column]
    return index, table[:, 4]


@st.composite
def made(draw: st.DrawFn) -> Made:
    """Up to five patients, each with windows of every part and class, or none of some."""
    person = st.tuples(st.sampled_from([MAN, MAN, WOMAN, WOMAN, UNKNOWN]),
                       st.sampled_from([False, False, False, True]))  # fmt: skip
    empty = draw(st.sets(st.integers(0, 3), max_size=3))
    blocks = []
    for patient, (sex, reserved) in enumerate(draw(st.lists(person, max_size=5))):
        counts = draw(st.lists(st.integers(0, 9), min_size=15, max_size=15))
        for place, count in enumerate(counts):
            part, label = place % 3, place // 3 - 1
            blocks.append((patient, sex, reserved, part, label, 0 if label in empty else count))
    return make(blocks, mix=draw(st.integers(0, 9)))


def available(data: Made, part: int, sexes: tuple[int, ...] = (MAN, WOMAN, UNKNOWN)) -> list[int]:
    """Windows of each class that a set may draw, counted one by one."""
    counts = [0, 0, 0, 0]
    for row, label in zip(*data, strict=True):
        if row["part"] == part and not row["reserved"] and label >= 0 and row["sex"] in sexes:
            counts[label] += 1
    return counts


def drawn(data: Made, rows: Indices, sexes: tuple[int, ...] = (MAN, WOMAN, UNKNOWN)) -> list[int]:
    index, classes = data
    chosen = rows[np.isin(index["sex"][rows], sexes)]
    return [int(np.sum(classes[chosen] == label)) for label in range(4)]


def check_rows(data: Made, rows: Indices, part: int) -> None:
    index, classes = data
    assert rows.dtype == np.int64 and (np.diff(rows) > 0).all()  # ascending, so none twice
    assert (index["part"][rows] == part).all()
    assert not index["reserved"][rows].any()
    assert (classes[rows] >= 0).all()


def deal(places: int, counts: list[int]) -> list[int]:
    """Deal places out one at a time, in turn, to the classes that still have windows."""
    given_out = [0, 0, 0, 0]
    while places and given_out != counts:
        for label in range(4):
            if places and given_out[label] < counts[label]:
                given_out[label] += 1
                places -= 1
    return given_out


@given(made(), st.integers(1, 120), st.integers(0, 3))
def test_shared_set(data: Made, size: int, seed: int) -> None:
    rows = shared_set(*data, seed, size)
    check_rows(data, rows, TEST)
    assert (data[0]["sex"][rows] >= 0).all()
    both = available(data, TEST, (MAN, WOMAN))
    for sex, places in ((MAN, size - size // 2), (WOMAN, size // 2)):
        own, got = available(data, TEST, (sex,)), drawn(data, rows, (sex,))
        assert sum(got) == min(places, sum(own))
        fair = [places * count / max(1, sum(both)) for count in both]
        if all(have >= want for have, want in zip(own, fair, strict=True)):
            assert all(abs(one - want) < 1 for one, want in zip(got, fair, strict=True))
        for one, have, want in zip(got, own, fair, strict=True):
            assert one >= min(have, int(want + 1e-9))  # nobody loses to one that was short
    if min(sum(available(data, TEST, (sex,))) for sex in (MAN, WOMAN)) >= (size + 1) // 2:
        assert len(rows) == size
        assert sum(drawn(data, rows, (MAN,))) - sum(drawn(data, rows, (WOMAN,))) == size % 2


@given(made(), st.integers(1, 120), st.integers(0, 3))
def test_natural_subset(data: Made, size: int, seed: int) -> None:
    rows = natural_subset(*data, seed, size)
    check_rows(data, rows, TEST)
    assert len(rows) == min(size, sum(available(data, TEST)))


@given(made(), st.integers(0, 3), st.integers(0, 3))
def test_balanced_set(data: Made, rare: int, seed: int) -> None:
    rows = balanced_set(*data, seed, rare)
    check_rows(data, rows, TEST)
    have = available(data, TEST)
    assert drawn(data, rows) == [min(have[rare], count) for count in have]
    if rare == 3:
        assert np.array_equal(rows, balanced_set(*data, seed))


@given(made(), st.integers(1, 120), st.integers(0, 3))
def test_balanced_training_set(data: Made, size: int, seed: int) -> None:
    rows = balanced_training_set(*data, seed, size)
    check_rows(data, rows, TRAIN)
    have = available(data, TRAIN)
    assert len(rows) == min(size, sum(have))
    assert drawn(data, rows) == deal(size, have)
    if min(have) * 4 >= size:
        assert max(drawn(data, rows)) - min(drawn(data, rows)) <= 1


@given(made(), st.integers(1, 60), st.integers(0, 2**70))
def test_again(data: Made, size: int, seed: int) -> None:
    before = data[0].copy(), data[1].copy()
    for draw in SIZED:
        assert np.array_equal(draw(*data, seed, size), draw(*before, seed, size))
    assert np.array_equal(balanced_set(*data, seed), balanced_set(*before, seed))
    assert (data[0] == before[0]).all() and (data[1] == before[1]).all()


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_another_seed(one: int, other: int) -> None:
    assume(one != other)
    data = make([(p, p % 2, False, part, label, 60) for p in (0, 1) for part in (TRAIN, TEST)
                 for label in (0, 1)] + [(0, MAN, False, TEST, 3, 40)])  # fmt: skip
    for draw in SIZED:
        assert not np.array_equal(draw(*data, one, 80), draw(*data, other, 80))
    assert not np.array_equal(balanced_set(*data, one), balanced_set(*data, other))


def test_sets_are_independent() -> None:
    """Each draws 10 of the same 100 rows, with the same seed."""
    test = make([(0, MAN, False, TEST, 0, 100)])
    train = make([(0, MAN, False, TRAIN, 0, 100)])
    rare = make([(0, MAN, False, TEST, 0, 100), (0, MAN, False, TEST, 3, 10)])
    drawn_rows = [shared_set(*test, 0, 20), natural_subset(*test, 0, 10),
                  balanced_training_set(*train, 0, 10), balanced_set(*rare, 0)[:10]]  # fmt: skip
    assert all(len(rows) == 10 and rows.max() < 100 for rows in drawn_rows)
    assert len({tuple(rows) for rows in drawn_rows}) == 4


@pytest.mark.parametrize("draw, part, size", [
    (shared_set, TEST, 20), (natural_subset, TEST, 20), (balanced_training_set, TRAIN, 20)])
def test_every_window_is_as_likely(draw: Callable[..., Indices], part: int, size: int) -> None:
    data = make([(p, p % 2, False, part, label, 10) for p in (0, 1) for label in (0, 2)], mix=1)
    times = np.zeros(40)
    for seed in range(600):
        times[draw(*data, seed, size)] += 1
    assert abs(times / 600 - 0.5).max() < 0.1  # 5 standard deviations


def test_the_same_rows_in_any_process() -> None:
    """Published sets must not change; these rows are what the first version drew."""
    data = make([(p, p % 2, False, part, label, 3) for p in (0, 1) for part in (TRAIN, TEST)
                 for label in (0, 3)])  # fmt: skip
    assert shared_set(*data, 7, 4).tolist() == [6, 11, 18, 21]
    assert natural_subset(*data, 7, 4).tolist() == [6, 10, 18, 22]
    assert balanced_training_set(*data, 7, 4).tolist() == [2, 3, 14, 17]


def test_shared_set_by_hand() -> None:
    """Prevalence 60/20/15/5 of 200; the women have no AFIB and only three PVC."""
    men = [(0, MAN, False, TEST, label, n) for label, n in enumerate((50, 40, 27, 3))]
    women = [(1, WOMAN, False, TEST, label, n) for label, n in enumerate((70, 0, 3, 7))]
    others = [(2, UNKNOWN, False, TEST, 1, 50), (3, MAN, True, TEST, 1, 50),
              (0, MAN, False, VALIDATION, 1, 50), (1, WOMAN, False, TEST, -1, 50)]  # fmt: skip
    data = make([*men, *women, *others], mix=3)
    rows = shared_set(*data, 0, 40)
    assert drawn(data, rows, (MAN,)) == [12, 4, 3, 1]
    # 12, 4, 3, 1 wanted; without AFIB 15, -, 3.75, 1.25; PVC gives 3, so 17 are shared 60:5
    assert drawn(data, rows, (WOMAN,)) == [16, 0, 3, 1]
    assert drawn(data, shared_set(*data, 0, 1000)) == [120, 40, 30, 10]
    assert drawn(data, shared_set(*data, 0, 7), (MAN,)) == [2, 1, 1, 0]  # 2.4, 0.8, 0.6, 0.2
    assert drawn(data, shared_set(*data, 0, 1)) == [1, 0, 0, 0]


def test_a_short_sex_is_not_replaced_by_the_other() -> None:
    data = make([(0, MAN, False, TEST, 0, 50), (1, WOMAN, False, TEST, 0, 4)])
    rows = shared_set(*data, 0, 20)
    assert composition(*data, rows)["men"] == 10 and composition(*data, rows)["women"] == 4


def test_balanced_sets_by_hand() -> None:
    counts = (40, 9, 2, 5)
    data = make([(0, MAN, False, part, label, n) for part in (TRAIN, TEST)
                 for label, n in enumerate(counts)], mix=5)  # fmt: skip
    assert drawn(data, balanced_set(*data, 0)) == [5, 5, 2, 5]
    assert drawn(data, balanced_set(*data, 0, rare=1)) == [9, 9, 2, 5]
    # 8 each at first; PVC lacks 6 and SVE 3, so 25 are left for two classes
    assert drawn(data, balanced_training_set(*data, 0, 32)) == [16, 9, 2, 5]
    assert drawn(data, balanced_training_set(*data, 0, 18)) == [6, 5, 2, 5]
    assert drawn(data, balanced_training_set(*data, 0, 8)) == [2, 2, 2, 2]
    assert drawn(data, balanced_training_set(*data, 0)) == list(counts)


def test_sizes_of_the_paper() -> None:
    """Prevalence 77.3/19.0/3.4/0.3; 500, 20,000, 4 x 469 and 30,000 windows."""
    counts = (77_300, 19_000, 3_400, 469)
    data = make([(sex, sex, False, part, label, n) for part in (TRAIN, TEST) for sex in (MAN, WOMAN)
                 for label, n in enumerate(counts[:3])] + [
                 (0, MAN, False, part, 3, 469) for part in (TRAIN, TEST)])  # fmt: skip
    shared = composition(*data, shared_set(*data, 0))
    assert (shared["windows"], shared["men"], shared["women"]) == (500, 250, 250)
    assert len(natural_subset(*data, 0)) == 20_000
    assert drawn(data, balanced_set(*data, 0)) == [469] * 4
    # 29,531 are left after SVE, and 22,731 after PVC
    assert drawn(data, balanced_training_set(*data, 0)) == [11366, 11365, 6800, 469]


def test_composition() -> None:
    data = make([(4, MAN, False, TEST, 0, 3), (7, WOMAN, False, TEST, 1, 2),
                 (9, UNKNOWN, False, TEST, 3, 1), (9, UNKNOWN, False, TEST, -1, 1)])  # fmt: skip
    assert composition(*data, np.arange(1, 7)) == {
        "windows": 6, "patients": 3, "men": 2, "women": 2,
        "classes": {"Normal": 2, "AFIB": 2, "PVC": 0, "SVE": 1},
    }  # fmt: skip
    assert composition(*data, np.arange(0))["windows"] == 0


@pytest.mark.parametrize("draw", ALL)
def test_no_window_is_no_error(draw: Callable[..., Indices]) -> None:
    for data in (make([]), make([(0, MAN, True, TEST, 0, 5), (1, MAN, True, TRAIN, 0, 5)])):
        rows = draw(*data, 0)
        assert rows.dtype == np.int64 and rows.shape == (0,)


@pytest.mark.parametrize("draw", ALL)
def test_bad_input(draw: Callable[..., Indices]) -> None:
    index, classes = make([(0, MAN, False, part, 0, 5) for part in (TRAIN, TEST)])
    with pytest.raises(InputError, match="classes has 9 rows; allowed is 10"):
        draw(index, classes[:-1], 0)
    with pytest.raises(InputError, match="classes is 0 to 4; allowed is -1 to 3"):
        draw(index, np.r_[classes[1:], 4], 0)
    with pytest.raises(InputError, match="seed is -1; allowed is 0 or more"):
        draw(index, classes, -1)
    for number in (0, -3):
        if draw is not balanced_set:
            with pytest.raises(InputError, match=f"size is {number}; allowed is 1 or more"):
                draw(index, classes, 0, number)
    if draw is balanced_set:
        with pytest.raises(InputError, match="rare is 4; allowed is 0 to 3"):
            draw(index, classes, 0, 4)
