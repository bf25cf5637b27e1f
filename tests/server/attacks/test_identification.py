"""Every encoder names who was not anonymized, and nobody in noise."""

from dataclasses import replace

import pytest

from server.attacks.embeddings import ENCODERS
from server.attacks.identification import attack
from tests.server.attacks.conftest import made, noise


def found(case, encoder, **changes):
    settings = replace(case.settings, audit=replace(case.settings.audit, encoders=[encoder]))
    tree = attack(replace(case, settings=settings, **changes))
    return tree["same session"][encoder]


@pytest.mark.parametrize("encoder", ["classifier", "metric", "raw"])
def test_a_release_that_does_nothing_is_named(case, encoder):
    for pair in found(case, encoder).values():
        assert pair["top1"].value > 0.9 and pair["eer"].value < 0.15
        assert pair["cmc"][-1] == 1 and pair["enrolled"] == 4
        assert pair["by_gallery_size"][2].value >= pair["by_gallery_size"][4].value


@pytest.mark.parametrize("encoder", ["classifier", "metric", "raw"])
def test_noise_is_named_at_chance(case, encoder):
    released = found(case, encoder, bundles=made(noise))["released"]
    assert released["top1"].value < 0.6 and released["eer"].value > 0.3


def test_all_encoders_are_tested():
    assert set(ENCODERS) == {"classifier", "metric", "fiducial", "raw"}
