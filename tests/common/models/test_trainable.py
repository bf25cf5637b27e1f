"""Few layers are trained where few are asked for."""

import pytest

from common.config import Settings
from common.models.classifier import build
from common.models.trainable import choose
from common.protocol import STAGES


def trained(stage, which):
    settings = Settings(identity_by="embedding")
    network = choose(build(stage, settings, 1, 3, 0), which)
    return {name for name, p in network.named_parameters() if p.requires_grad}, sum(
        p.numel() for p in network.parameters() if p.requires_grad)


@pytest.mark.parametrize("stage", STAGES)
def test_each_choice_holds_the_smaller_ones(stage):
    (every, most), (norms, some), (last, few) = (trained(stage, w) for w in
                                                 ("all", "norms", "last"))
    assert last < norms < every and few < some < most / 5
    assert {name.split(".")[0] for name in last} in ({"head"}, {"projection"}, {"out"})
