"""From which recording is a released window? By its rhythm alone, and by its waveform."""

from __future__ import annotations

from typing import Any

import numpy as np

from common.audits.same_recording import beat_trains, same_recording, waveforms
from common.training import seed_from
from server.attacks.case import Case

_MOST = 1000  # windows, drawn by the run's seed


def attack(case: Case) -> dict[str, Any]:
    """{rhythm, waveform: share of windows whose own original is the nearest}, and how many."""
    bundles, rate = case.bundles, case.settings.profile.sampling_rate
    generator = np.random.default_rng(seed_from(case.settings, "auditor", "recording"))
    rows = np.sort(generator.permutation(bundles.released_rows("test"))[:_MOST])
    clean, released, patient = (part[rows] for part in (bundles.clean, bundles.released,
                                                        bundles.patient))
    return {"windows": len(rows),
            "rhythm": same_recording(beat_trains(clean, rate), beat_trains(released, rate),
                                     patient),
            "waveform": same_recording(waveforms(clean), waveforms(released), patient)}
