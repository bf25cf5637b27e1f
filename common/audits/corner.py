"""Distance to the ideal corner: nothing leaks, the diagnosis stays, the waveform is the same.

Source: REAN (arXiv:2607.06037), section IV-D and Table VIII. The paper does not spell out the first
two terms; these reproduce its table (U 1.292, UPD .282).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PRD = 20.0  # percent that count as 1


@dataclass(frozen=True)
class Point:
    """What a release gives away and what is left of it; accuracies in [0, 1].

    Args:
        reid, sex, age: of an attacker.
        arrhythmia: accuracy of the diagnosis.
        prd: percent.
    """

    reid: float
    sex: float
    age: float
    arrhythmia: float
    prd: float


def corner_distance(clean: Point, released: Point, chance: Mapping[str, float]) -> float:
    """d: mean leakage of identity and age, plus lost accuracy, plus PRD / 20; lower is better.

    Leakage is max(0, accuracy - chance) / (clean - chance). Sex takes no part, as in the paper.
    """
    return _leak(clean, released, chance, ("reid", "age")) + _rest(clean, released)


def symmetric_corner_distance(clean: Point, released: Point, chance: Mapping[str, float]) -> float:
    """d_sym: as d, with sex as |accuracy - 1/2| / |clean - 1/2|, as a flipped attacker is one."""
    shared = 2 * _leak(clean, released, chance, ("reid", "age"))
    sex = _share(abs(clean.sex - 0.5), abs(released.sex - 0.5))
    return (shared + sex) / 3 + _rest(clean, released)


def _leak(clean: Point, released: Point, chance: Mapping[str, float],
          what: tuple[str, ...]) -> float:
    return sum(_share(getattr(clean, name) - chance[name], getattr(released, name) - chance[name])
               for name in what) / len(what)


def _share(before: float, after: float) -> float:
    """What is left of an attacker's advantage over chance; nothing of one that had none."""
    return max(0.0, after) / before if before > 0 else 0.0


def _rest(clean: Point, released: Point) -> float:
    return max(0.0, clean.arrhythmia - released.arrhythmia) + released.prd / _PRD
