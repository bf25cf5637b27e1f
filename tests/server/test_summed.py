"""A step on the sum of noisy sums: arithmetic, AdamW's memory, rounds that miss too many."""

import numpy as np
import pytest
import torch

from common.config import Privacy, Settings, Training
from server.summed import SummedStep
from tests.server.test_strategy import reply

W = torch.tensor([1.0, -2.0])
Q = 0.5


def strategy(missing=0, nodes=2, done=0, moments=None, state=W):
    settings = Settings(
        identity_by="embedding", sex=Training(rounds=2, epochs=5, lr=0.1, weight_decay=0.0),
        privacy=Privacy(unit="patient", trust="aggregate", missing=missing, q=Q))
    lines = []
    made = SummedStep({"w": state, "still": torch.ones(3)}, ["w"], settings, "sex", done,
                      moments or {}, nodes, 0.0, lambda *line: lines.append(line), {})
    return made, lines


def adamw(gradients):
    """Where torch's own optimizer takes the weights."""
    p = W.clone().requires_grad_(True)
    one, _ = strategy()
    optimizer = torch.optim.AdamW([p], lr=0.1, weight_decay=0.0)
    for step, gradient in enumerate(gradients):
        optimizer.param_groups[0]["lr"] = one.schedule.at(step)
        p.grad = gradient
        optimizer.step()
    return p.detach().numpy()


def test_the_sum_is_divided_by_the_public_number_and_moves_what_is_trained():
    made, lines = strategy()
    arrays, _ = made.aggregate_train(1, [reply("a", 0.3, 4), reply("b", 0.5, 6)])
    assert np.allclose(arrays["w"].numpy(), adamw([torch.full((2,), 0.8 / (Q * 10))]))
    # AdamW forgets a common factor, so the division is looked at itself.
    torch.testing.assert_close(made.changing["w"].grad, torch.full((2,), 0.8 / (Q * 10)))
    assert arrays["still"].numpy().tolist() == [1, 1, 1] and lines == []


def test_a_hospital_without_windows_adds_its_noise_alone():
    made, lines = strategy()
    made.aggregate_train(1, [reply("a", 0.3, 4), reply("b", 0.5, 0)])
    assert lines == []


def test_it_goes_on_with_adamws_memory():
    made, _ = strategy()
    made.aggregate_train(1, [reply("a", 0.3, 4), reply("b", 0.5, 6)])
    again, _ = strategy(done=1, moments=made.moments(), state=made.state["w"])
    arrays, _ = again.aggregate_train(1, [reply("a", -0.9, 4), reply("b", 0.2, 6)])
    expected = adamw([torch.full((2,), v / (Q * 10)) for v in (0.8, -0.7)])
    assert np.allclose(arrays["w"].numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(("missing", "moves"), [(0, False), (1, True)])
def test_a_step_that_misses_too_many_is_discarded(missing, moves):
    made, lines = strategy(missing)
    arrays, _ = made.aggregate_train(1, [reply("a", 0.3, 4)])
    assert (not np.array_equal(arrays["w"].numpy(), W.numpy())) == moves
    assert any("discarded and stays charged" in why for _, why in lines) != moves
    assert made.made == 1


def test_as_many_exchanges_as_steps():
    made, _ = strategy()
    assert made.schedule.total == 2 * 10  # two rounds of 5 / q steps
