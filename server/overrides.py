"""Hydra overrides -> Settings, with errors that fit on one line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from common.config import Settings, settings_from
from common.errors import InputError

# Read by path, since the server must not import the simulations.
_CONF = Path(__file__).resolve().parent.parent / "simulations" / "conf"


def compose_settings(overrides: Sequence[str]) -> Settings:
    """Settings of a run.

    Raises:
        InputError: an override has an unknown key, no such option, or a value out of range.
    """
    try:
        with initialize_config_dir(str(_CONF), version_base=None):
            tree: Any = OmegaConf.to_container(compose("config", overrides=list(overrides)))
    except (HydraException, OmegaConfBaseException) as error:
        keys = ", ".join(Settings.__dataclass_fields__)
        text = " ".join(str(error).split()).split(" Config search path")[0]
        raise InputError(f"override not understood: {text}; settings: {keys}") from error
    return settings_from(tree)
