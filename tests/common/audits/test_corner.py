"""The distances against the REAN paper's own ablation table."""

from __future__ import annotations

import pytest

from common.audits.corner import Point, corner_distance, symmetric_corner_distance

CLEAN = Point(0.964, 0.974, 0.976, 0.978, 0.0)
CHANCE = {"reid": 1 / 186, "age": 0.2}
PAPER = {  # rows of Table VIII: ReID, sex, age, accuracy, PRD and d
    "U": (Point(0.704, 0.830, 0.842, 0.990, 10.27), 1.29),
    "P": (Point(0.000, 0.094, 0.104, 0.730, 15.45), 1.02),
    "D": (CLEAN, 1.00),
    "UP": (Point(0.000, 0.096, 0.074, 0.962, 15.59), 0.80),
    "PD": (Point(0.000, 0.146, 0.016, 0.810, 5.65), 0.45),
    "UPD": (Point(0.000, 0.142, 0.044, 0.974, 5.56), 0.28),
}


@pytest.mark.parametrize("terms", PAPER)
def test_the_papers_ablation(terms: str) -> None:
    point, d = PAPER[terms]
    assert corner_distance(CLEAN, point, CHANCE) == pytest.approx(d, abs=0.006)


def test_a_flipped_attacker_is_an_attacker() -> None:
    point, _ = PAPER["UPD"]
    assert symmetric_corner_distance(CLEAN, point, CHANCE) == pytest.approx(0.534, abs=0.001)
    inverted = Point(point.reid, 1 - point.sex, point.age, point.arrhythmia, point.prd)
    assert symmetric_corner_distance(CLEAN, inverted, CHANCE) == pytest.approx(0.534, abs=0.001)


def test_the_corner_itself() -> None:
    ideal = Point(1 / 186, 0.5, 0.2, 0.99, 0.0)
    assert corner_distance(CLEAN, ideal, CHANCE) == 0.0
    assert symmetric_corner_distance(CLEAN, ideal, CHANCE) == 0.0


def test_an_attacker_without_an_advantage_takes_no_part() -> None:
    blind = Point(CLEAN.reid, 0.5, CLEAN.age, CLEAN.arrhythmia, 0.0)
    some = Point(CLEAN.reid, 0.6, CLEAN.age, CLEAN.arrhythmia, 0.0)
    assert symmetric_corner_distance(blind, some, CHANCE) == pytest.approx(2 / 3)
