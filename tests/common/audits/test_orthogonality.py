"""Angles and steps between linear networks whose answers are known by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from common.anonymizers.contract import Frozen, Labelled
from common.audits.orthogonality import (
    ATTRIBUTES,
    equal_step,
    equal_steps,
    input_angles,
    parameter_cosines,
)
from common.config import Profile, Settings
from common.ecg.beats import no_beats
from common.models.classifier import build
from common.protocol import CLASSIFIER_STAGES
from common.results import to_plain

LENGTH = 800
AXES = torch.eye(3, LENGTH)


class Linear(nn.Module):
    """Logit 0 is the window's component along `way`, above a threshold; the others are 0.

    For windows of class 0 the loss falls along `way`, whatever the window.
    """

    def __init__(self, way: Tensor, classes: int = 2, threshold: float = 0.0) -> None:
        super().__init__()
        self.way, self.threshold = nn.Parameter(way.clone()), threshold
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        first = x.flatten(1) @ self.way - self.threshold
        return torch.stack([first, *[torch.zeros_like(first)] * (self.classes - 1)], dim=1)


class Shift(nn.Module):
    """An anonymizer whose residual is its one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.shift.expand_as(x)


def windows(n: int = 150, x: np.ndarray | None = None) -> Labelled:
    """All of class 0 in everything; six patients; x is uniform noise unless given."""
    x = np.random.default_rng(0).random((n, 1, LENGTH), dtype=np.float32) if x is None else x
    allowed, identity, sex, age = (np.full(n, value, np.int64) for value in (1, 0, 0, 0))
    return Labelled(x, 100.0, allowed, identity, np.arange(n) % 6, sex, age, no_beats(n))


def at(degrees: float) -> Tensor:
    """A unit vector at an angle to the first axis."""
    return math.cos(math.radians(degrees)) * AXES[0] + math.sin(math.radians(degrees)) * AXES[1]


def linear(*degrees: float) -> Frozen:
    """Diagnosis along the first axis; identity, sex and age at angles to it."""
    return Frozen(Linear(AXES[0], 4), *(Linear(at(d)) for d in degrees)).freeze()


def test_angles_of_linear_networks_are_exact():
    found = input_angles(linear(90, 0, 60), windows())["frozen"]
    for name, degrees in (("identity", 90), ("sex", 0), ("age", 60)):
        assert found[name]["angle"].value == pytest.approx(degrees, abs=0.01)
        assert found[name]["cosine"].value == pytest.approx(math.cos(math.radians(degrees)),
                                                            abs=1e-6)
        assert found[name]["near_orthogonal"].value == (1.0 if degrees == 90 else 0.0)
        assert found[name]["angle"].n == 150 and found[name]["left_out"].value == 0


def test_the_bundle_is_the_sum_of_the_losses():
    zero = windows(x=np.zeros((150, 1, LENGTH), np.float32))  # logits of 0: all pull alike
    found = input_angles(linear(90, 0, 60), zero)["frozen"]
    assert found["bundled"]["angle"].value == pytest.approx(
        math.degrees(math.atan2(1 + math.sin(math.pi / 3), 1 + 0.5)), abs=0.01)
    opposed = input_angles(linear(120, 120, 120),
                           dataclasses.replace(zero, sex=zero.sex + 1))["frozen"]
    assert opposed["sex"]["angle"].value == pytest.approx(60, abs=0.01)  # class 1: the other way


def test_other_attackers_meet_the_same_utility_gradient():
    others = {"resnet": {"identity": Linear(at(30)), "sex": Linear(at(30))}}
    found = input_angles(linear(90, 90, 90), windows(), others)
    assert set(found) == {"frozen", "resnet"}
    assert set(found["resnet"]) == {"bundled", "identity", "sex"}
    assert found["resnet"]["bundled"]["angle"].value == pytest.approx(30, abs=0.01)
    assert found["frozen"]["bundled"]["angle"].value == pytest.approx(90, abs=0.01)


def test_unlabelled_windows_and_flat_gradients_take_no_part():
    data = windows(60)
    data.allowed[:5], data.sex[5:15], data.age[15:35] = 3, -1, -1
    found = input_angles(linear(90, 90, 90), data)["frozen"]
    assert [found[name]["angle"].n for name in (*ATTRIBUTES, "bundled")] == [55, 45, 35, 25]
    assert found["bundled"]["left_out"].value == pytest.approx(35 / 60)
    data.x[40:, 0, 0] = 14  # the diagnosis is so sure that its gradient is mostly rounding
    found = input_angles(linear(90, 90, 90), data)["frozen"]
    assert found["identity"]["angle"].n == 35
    assert found["identity"]["left_out"].value == pytest.approx(25 / 60)


def test_a_random_direction_is_near_orthogonal_too():
    generator = torch.Generator().manual_seed(0)
    attackers = {str(i): {"identity": Linear(torch.randn(LENGTH, generator=generator) / 30)}
                 for i in range(100)}
    found = input_angles(linear(90, 90, 90), windows(2), attackers)
    random = [found[name]["identity"] for name in attackers]
    assert np.mean([r["angle"].value for r in random]) == pytest.approx(90, abs=0.6)
    assert np.mean([r["near_orthogonal"].value for r in random]) == 1
    assert random[0]["near_orthogonal"].chance == pytest.approx(1, abs=1e-4)
    measured = np.mean([r["absolute_cosine"].value for r in random])
    assert measured == pytest.approx(random[0]["absolute_cosine"].chance, rel=0.25)


def test_parameter_cosines_of_a_shift_are_those_of_the_networks():
    found = parameter_cosines(Shift(), 1.0, linear(90, 0, 60), windows())
    expected = {"utility-identity": 90, "utility-sex": 0, "utility-age": 60, "identity-sex": 90,
                "identity-age": 30, "sex-age": 60}
    for name, degrees in expected.items():
        assert found[name].value == pytest.approx(math.cos(math.radians(degrees)), abs=1e-5)
        assert found[name].n == 3  # batches of 64
    assert set(found) == {*expected, "utility-bundled"}
    assert 0.5 < found["utility-bundled"].value < 0.8


def test_a_step_has_its_share_of_the_windows_norm():
    x, way = torch.rand(5, 2, 40), torch.randn(5, 2, 40)
    change = (equal_step(x, way, 0.05) - x).flatten(1)
    assert change.norm(dim=1).numpy() == pytest.approx(0.05 * x.flatten(1).norm(dim=1).numpy(),
                                                       rel=1e-4)
    assert torch.cosine_similarity(change, way.flatten(1)).min() > 0.999


def test_steps_along_one_direction_harm_only_what_lies_along_it():
    data = windows(120)
    data.x[:, 0, :2] = 0.6  # both networks see 0.6 above a threshold of 0.5: right by a little
    data.allowed[:60], data.identity[:60], data.x[:60, 0, :2] = 2, 1, 0.4
    frozen = Frozen(Linear(AXES[0], 4, 0.5), Linear(AXES[1], 2, 0.5),
                    *(Linear(AXES[1], 2, 0.5) for _ in range(2))).freeze()
    data.sex[:60] = data.age[:60] = 1
    found = equal_steps(frozen, data, (0.0, 0.05))
    hits = {(way, share): (tree["arrhythmia_accuracy"].value, tree["identity"].value)
            for way in ("privacy", "utility", "random") for share, tree in found[way].items()}
    assert found["clean"]["arrhythmia_accuracy"].value == 1 == found["clean"]["identity"].value
    assert all(hits[way, "0"] == (1, 1) for way in ("privacy", "utility", "random"))
    assert hits["privacy", "0.05"] == (1, 0)
    assert hits["utility", "0.05"] == (0, 1)
    assert hits["random", "0.05"] == (1, 1)  # spread over 800 samples, .03 of it on each axis
    assert found["left_out"].value == 0


def test_no_window_is_an_error_that_says_so():
    data = windows(10)
    data.sex[:] = -1
    with pytest.raises(ValueError, match="10 windows: none"):
        equal_steps(linear(90, 90, 90), data)


def test_small_untrained_networks_of_two_leads_give_the_same_twice():
    torch.set_num_threads(1)
    settings = Settings(profile=Profile(vit_width=16, resnet_width=8, unet_width=4))
    frozen = Frozen(*(build(stage, settings, 2, 5, 0) for stage in CLASSIFIER_STAGES)).freeze()
    generator = np.random.default_rng(1)
    data = dataclasses.replace(
        windows(70, generator.random((70, 2, LENGTH), dtype=np.float32)),
        allowed=1 << generator.integers(0, 4, 70), identity=generator.integers(0, 5, 70),
        sex=generator.integers(0, 2, 70), age=generator.integers(0, 5, 70))
    unet = build("anonymizer", settings, 2, 0, 0)

    def run() -> list[object]:
        return [to_plain(tree) for tree in (
            input_angles(frozen, data), parameter_cosines(unet, 0.08, frozen, data),
            equal_steps(frozen, data, (0.02, 0.1)))]

    first = run()
    assert first == run()
    angle = first[0]["frozen"]["bundled"]["angle"]
    assert angle["n"] == 70 and angle["low"] < angle["value"] < angle["high"]
    assert set(first[2]["privacy"]) == {"0.02", "0.1"}
    assert all(p.grad is None for p in unet.parameters())
