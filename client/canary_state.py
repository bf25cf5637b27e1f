"""A hospital's canaries on its own disk: who is there, what each round said, what that proves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from common.privacy.canaries import Canaries, draw, draw_weights, guessed
from common.privacy.lower_bound import epsilon_lower_bound

CONFIDENCE = 0.95


class CanaryState:
    """Canaries of one run.

    Args:
        folder: on the hospital's own disk; the coins in it are as secret as the noise.
        count: how many; 0: none.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count

    def of(self, stage: str, weights: int) -> Canaries:
        """The canaries of a round, who know nothing yet.

        Args:
            stage: of the run.
            weights: how many it trains.

        Raises:
            InputError: fewer weights than canaries.
        """
        coins, own = self.folder / "coins.npz", self.folder / f"weights-{stage}.npz"
        if not coins.exists():
            included, sign = draw(self.count)
            _save(coins, included=included, sign=sign)
        if not own.exists():
            _save(own, weight=draw_weights(self.count, weights))
        with np.load(coins) as known, np.load(own) as where:
            return Canaries(known["included"], known["sign"], where["weight"],
                            np.zeros(self.count))

    def keep(self, stage: str, number: int, canaries: Canaries) -> None:
        """Keep what a round said; a round made again replaces it."""
        _save(self.folder / f"score-{stage}-{number}.npz", score=canaries.score)

    def proved(self, delta: float) -> dict[str, Any]:
        """The lower bound on epsilon of the whole run, at 95 % confidence; {} without canaries.

        Args:
            delta: of the run.
        """
        files = sorted(self.folder.glob("score-*.npz"))
        if not self.count or not files:
            return {}
        with np.load(self.folder / "coins.npz") as known:
            included = known["included"]
        score = np.zeros(self.count)
        for file in files:
            with np.load(file) as kept:
                score += kept["score"]
        correct, guesses = guessed(score, included)
        return {"lower_bound": epsilon_lower_bound(correct, guesses, self.count, delta, CONFIDENCE),
                "canaries": {"count": self.count, "correct": correct, "guesses": guesses,
                             "confidence": CONFIDENCE}}


def _save(file: Path, **arrays: Any) -> None:
    """Whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}")
    with part.open("wb") as out:
        np.savez(out, **arrays)
    os.replace(part, file)
