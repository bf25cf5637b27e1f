"""The Flower ServerApp of a deployment: `flwr run` starts it, the hospitals train.

What `flwr run -c` may set: `overrides` (Hydra overrides, as in `fedrean simulate`), `hospitals`
(how many take part), `wait` (s until they must be connected) and `folder` (the run directory on
the server; the same folder again goes on from its checkpoints).
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from pathlib import Path

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from common.config import Settings
from common.errors import InputError
from server.overrides import compose_settings
from server.run_directory import create_run, open_run, run_id
from server.workflow import Workflow

log = logging.getLogger("fedrean.server")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Steps 2 to 5 of a run with real hospitals."""
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    config = context.run_config
    folder = Path(str(config["folder"]) or f"runs/{context.run_id}").resolve()
    settings = deployment_settings(folder, str(config["overrides"]))
    torch.set_num_threads(settings.threads)
    hospitals = _number(config, "hospitals", 1, 1000)
    wait = _number(config, "wait", 1, 86_400)
    log.info("run directory: %s", folder)
    Workflow(settings, run_id(folder), folder, hospitals, _say, wait).start(grid)
    log.info("done: %s", folder / "models")


def deployment_settings(folder: Path, overrides: str) -> Settings:
    """Settings of a new run directory, or those of the one that is gone on with.

    Raises:
        InputError: the overrides are wrong, or change the settings of an existing run.
    """
    words = shlex.split(overrides)
    asked = compose_settings([*words, "engine=grpc"])
    if not (folder / "config.yaml").exists():
        create_run(folder, asked)
        return asked
    settings = open_run(folder)
    if words and asked != settings:
        raise InputError(f"overrides is {overrides!r}, which are not the settings of {folder}; "
                         "allowed: '' or the same, to go on; another folder for another run")
    return settings


def _number(config: Mapping[str, object], key: str, low: int, high: int) -> int:
    value = config[key]
    if not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{key} is {value!r}; allowed: {low} to {high}")
    return value


def _say(stage: str, number: int, rounds: int) -> None:
    log.info("%s %d/%d", stage, number, rounds)
