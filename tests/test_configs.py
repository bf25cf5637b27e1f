import pytest

from common.errors import InputError
from common.protocol import ATTACKS, ENCODERS
from common.scenarios import SCENARIOS
from server.overrides import compose_settings


@pytest.mark.parametrize("profile", ["tiny", "small", "paper"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_every_config_composes(profile, scenario):
    settings = compose_settings([f"profile={profile}", f"privacy={scenario.unit}",
                                 f"training={scenario.training}", f"engine={scenario.engines[0]}"])
    assert settings.profile.name == profile
    assert settings.privacy.unit == scenario.unit


def test_paper_profile_is_the_papers():
    settings = compose_settings(["profile=paper"])
    p, rean = settings.profile, settings.rean
    assert (p.length, p.patch, p.vit_width, p.vit_depth, p.vit_heads, p.vit_mlp) == (
        2000, 20, 240, 6, 6, 128)
    assert (rean.bound, rean.utility, rean.privacy, rean.prd, rean.l1) == (
        0.08, 1.51, 0.153, 0.323, 1.46)
    assert (p.unet_width, p.unet_levels, settings.anonymizer.batch) == (32, 4, 64)


@pytest.mark.parametrize(("override", "words"), [
    ("colour=red", "colour"),
    ("profile.size=3", "size"),
    ("seed=-1", "0 to 2^31"),
    ("training=together", "federated, pooled, local"),
    ("privacy.epsilon=0", "(0, 1000]"),
    ("privacy.q=0", "(0, 1]"),
    ("privacy=patient audit=full", "inversion"),
    ("rean.bound=2", "(0, 1]"),
    ("audit.references=3", "even numbers, 2 to 256"),
    ("audit.shadows=0", "even numbers, 2 to 256"),
])
def test_bad_overrides_name_the_setting_and_the_bound(override, words):
    with pytest.raises(InputError, match=".+") as caught:
        compose_settings(override.split())
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_engine_that_the_scenario_lacks_is_refused():
    with pytest.raises(InputError, match="training=pooled .*engine=grpc; allowed: "):
        compose_settings(["engine=grpc", "training=pooled"])


def test_the_groups_of_attacks():
    assert compose_settings([]).audit.attacks == ["identification", "membership"]
    full = compose_settings(["audit=full", "audit.seeds=2"]).audit
    assert (full.attacks, full.encoders, full.seeds) == (list(ATTACKS), list(ENCODERS), 2)
    folders = compose_settings(["audit=folders"]).audit
    assert set(ATTACKS) - set(folders.attacks) == {  # what needs a run
        "membership", "membership_references", "inversion"}
