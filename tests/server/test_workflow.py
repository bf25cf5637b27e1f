"""The server's side of a run, without hospitals."""

import pytest
import torch

from common.config import Settings
from common.errors import UpdateError
from server.workflow import Workflow
from simulations.in_process_grid import InProcessGrid


def flow(folder, nodes=1):
    return Workflow(Settings(), "run", folder, nodes, lambda *_: None, wait=0.05)


def test_a_stage_starts_from_the_weights_it_is_given(tmp_path):
    drawn, done = flow(tmp_path)._last_checkpoint("sex", {})
    given = {name: torch.full_like(value, 3.0) for name, value in drawn.items()
             if name.startswith("backbone.")}
    state, _ = flow(tmp_path)._last_checkpoint("sex", given)
    assert done == 0 and given
    assert all(torch.equal(state[name], value) for name, value in given.items())
    assert torch.equal(state["head.weight"], drawn["head.weight"])


def test_sex_and_age_start_from_the_identity_backbone(tmp_path, monkeypatch):
    starts = {}

    def train(self, grid, stage, start):
        starts[stage] = start
        return {f"backbone.{stage}": torch.zeros(1)}

    monkeypatch.setattr(Workflow, "train", train)
    monkeypatch.setattr(Workflow, "ask", lambda *_: None)
    flow(tmp_path).start(None)
    assert set(starts["sex"]) == set(starts["age"]) == {"backbone.identity"}
    assert starts["diagnosis"] == starts["identity"] == starts["anonymizer"] == {}


def test_a_round_does_not_wait_for_ever(tmp_path):
    with pytest.raises(UpdateError, match="1 of 2 hospitals are connected after 0.05 s"):
        flow(tmp_path, nodes=2).train(InProcessGrid(None, 1), "diagnosis", {})
