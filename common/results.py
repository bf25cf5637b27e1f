"""Results: leaves {value, low, high, n, chance}, and metrics.json that holds them.

Every figure that leaves an audit carries its own uncertainty and what chance would give, so
that no table can show one without the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError

SCHEMA_VERSION = 2
_CHUNK = 1 << 21  # weights of resamples held at once


@dataclass(frozen=True)
class Estimate:
    """A measured value with its 95 % interval.

    Args:
        value: the point estimate; NaN where it cannot be computed.
        low: lower end of the 95 % interval.
        high: upper end of the 95 % interval.
        n: number of windows (or patients, where the measure is per patient) behind it.
        chance: what guessing gives, where that is defined.
    """

    value: float
    low: float
    high: float
    n: int
    chance: float | None = None

    def as_dict(self) -> dict[str, float | int | None]:
        """JSON form; NaN becomes null, since JSON has no NaN."""
        return {
            "value": _finite(self.value),
            "low": _finite(self.low),
            "high": _finite(self.high),
            "n": self.n,
            "chance": _finite(self.chance),
        }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def clustered_bootstrap(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    clusters: NDArray[np.int64],
    *,
    chance: float | None = None,
    resamples: int = 300,
    seed: int = 0,
) -> Estimate:
    """Percentile bootstrap over patients, not windows: windows of one patient are not independent.

    Args:
        statistic: maps weights of windows [resamples, n] to values [resamples] (a weight is the
            multiplicity of the window's patient; all ones give the point estimate).
        clusters: patient of each window, [n].
        chance: passed on to the estimate.
        resamples: number of bootstrap resamples.
        seed: seed of the resampling.

    Source: Field & Welsh (2007), the cluster bootstrap.
    """
    names, inverse = np.unique(clusters, return_inverse=True)
    n = int(inverse.size)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0, chance)
    value = float(statistic(np.ones((1, n)))[0])
    generator = np.random.default_rng(seed)
    draws = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    few = max(1, _CHUNK // n)
    values = np.concatenate([statistic(draws[i : i + few][:, inverse].astype(np.float64))
                             for i in range(0, resamples, few)])
    values = values[np.isfinite(values)]
    if values.size == 0 or len(names) < 2:
        return Estimate(value, math.nan, math.nan, n, chance)
    low, high = np.percentile(values, [2.5, 97.5])
    return Estimate(value, float(low), float(high), n, chance)


def mean_estimate(
    values: NDArray[Any],
    clusters: NDArray[np.int64],
    *,
    chance: float | None = None,
    seed: int = 0,
) -> Estimate:
    """Mean of per-window values [n] with a patient-clustered interval."""
    numbers = np.asarray(values, dtype=np.float64)
    return clustered_bootstrap(
        lambda w: (w @ numbers) / np.maximum(w.sum(1), 1e-12),
        clusters,
        chance=chance,
        resamples=1000,
        seed=seed,
    )


def to_plain(tree: Any) -> Any:
    """The tree with every Estimate as a dict and every numpy scalar as a number."""
    if isinstance(tree, Estimate):
        return tree.as_dict()
    if isinstance(tree, Mapping):
        return {str(key): to_plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [to_plain(value) for value in tree]
    if isinstance(tree, np.generic):
        return to_plain(tree.item())
    if isinstance(tree, float):
        return _finite(tree)
    return tree


def write_json(path: Path, tree: Any) -> None:
    """Write JSON atomically: a reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(to_plain(tree), indent=1, sort_keys=False) + "\n")
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """Read a JSON file that write_json wrote.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"file is '{path}'; it cannot be read as JSON: {error}") from None
