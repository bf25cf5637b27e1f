"""The panel reads arrhythmias; it has learned to, and its judgement is a probability."""

from __future__ import annotations

import numpy as np
import torch

from common.anonymizers.contract import Effort
from common.anonymizers.surrogate_panel import Panel, fit_panel
from common.ecg.labels import decided


class Says(torch.nn.Module):
    """Class 1 with the given odds."""

    def __init__(self, odds):
        super().__init__()
        self.odds = torch.nn.Parameter(torch.tensor(float(odds)))

    def forward(self, x):
        return torch.log(torch.stack([torch.ones(len(x)), self.odds.expand(len(x))], 1))


def test_clarity_is_the_geometric_mean_of_the_panels_probabilities():
    panel = Panel([Says(3.0), Says(1.0)])
    x = np.zeros((2, 1, 80), dtype=np.float32)
    assert np.allclose(panel.clarity(x, np.array([1, 0])), [(0.75 * 0.5) ** 0.5,
                                                            (0.25 * 0.5) ** 0.5])


def test_a_fitted_panel_reads_windows_it_has_not_seen(hospital):
    panel = fit_panel(hospital.train, hospital.frozen, Effort(80))
    assert panel.members[0] is hospital.frozen.diagnosis
    classes = decided(hospital.test.allowed.astype(np.uint8))
    known = classes >= 0
    own = Panel(panel.members[1:])  # those that were fitted here
    right = own.clarity(hospital.test.x[known], classes[known])
    wrong = own.clarity(hospital.test.x[known], (classes[known] + 1) % 4)
    assert right.mean() > 0.5 > 2 * wrong.mean()
