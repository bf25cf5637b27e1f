"""Does a filter, or a network that undoes the release, bring the patient back?

Each purifier is applied to released test windows, and to clean ones: what it takes from the
attacker there is its own harm. The attacker is the auditor's, trained on clean windows and not on
purified ones: who learns from releases is another attack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from common.audits.purifiers import FILTERS
from common.audits.utility import prd
from common.errors import InputError
from common.training import predict
from server.attackers import Windows
from server.attacks.case import Case, answered
from server.attacks.restorers import Restorer, denoiser, restorer

Purify = Callable[[Windows], Windows]
_PIECE = 1024  # windows filtered at a time


def attack(case: Case) -> dict[str, Any]:
    """Of each purifier, and of "none": released, clean -> reid, reid_reserved, sex, age, prd.

    PRD is that to the clean window. A filter that the sampling rate does not allow has "skipped",
    the reason, in their place.
    """
    bundles = case.bundles.of_released()
    rows = bundles.rows("test")
    clean, patient = bundles.clean[rows], bundles.patient[rows]
    found: dict[str, Any] = {}
    for name, purify in _purifiers(case):
        case.progress(f"purifier: {name}")
        found[name] = {}
        for version, windows in (("released", bundles.released[rows]), ("clean", clean)):
            try:
                purified = _in_pieces(purify, windows)
            except InputError as error:
                found[name] = {"skipped": str(error)}
                break
            found[name][version] = {**answered(bundles, case.attacker, purified, rows),
                                    "prd": prd(clean, purified, patient)}
    return found


def _purifiers(case: Case) -> Iterator[tuple[str, Purify]]:
    """Each is made when its turn comes, as two are trained."""
    yield "none", lambda windows: windows
    for name, function in FILTERS.items():
        yield name, partial(_filtered, function, case.settings.profile.sampling_rate)
    for name, train in (("denoiser", denoiser), ("restorer", restorer)):
        case.progress(f"training a purifier: {name}")
        network = train(case)
        yield name, partial(_restored, network)


def _filtered(function: Callable[[Windows, float], Windows], rate: float,
              windows: Windows) -> Windows:
    return function(windows, rate)


def _restored(network: Restorer, windows: Windows) -> Windows:
    return np.asarray(predict(network, windows))


def _in_pieces(purify: Purify, windows: Windows) -> Windows:
    """[n, leads, L] -> the same shape; filters work in float64, and a release may be large."""
    starts = range(0, len(windows), _PIECE)
    return np.concatenate([windows[:0], *(purify(windows[at : at + _PIECE]) for at in starts)])
