"""Patients' ECGs out of what leaves a hospital: weights that know them, and one update."""

from __future__ import annotations

from typing import Any

from server.attacks.case import Case
from server.attacks.gradient_inversion import gradient_inversion
from server.attacks.model_inversion import model_inversion


def attack(case: Case) -> dict[str, Any]:
    """What each inversion reaches; the signals stay in `case.folder`, as they are the patients'."""
    return {"model": model_inversion(case), "gradient": gradient_inversion(case)}
