"""The run directory: its settings, and the identifier that hospitals know the run by."""

from __future__ import annotations

import re
import time
from pathlib import Path

import yaml
from safetensors import SafetensorError
from torch import Tensor

from common.config import Settings, settings_from
from common.ecg.hospital_file import load_hospital
from common.errors import InputError
from common.models.files import load_state
from common.protocol import STAGES, Stage
from common.results import read_json, write_json


def open_run(folder: Path) -> Settings:
    """Settings of an existing run directory.

    Raises:
        InputError: it is no run directory.
    """
    try:
        tree = yaml.safe_load((folder / "config.yaml").read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"resume is {str(folder)!r}, which holds no readable config.yaml "
                         f"({reason}); allowed: the directory of an earlier run") from None
    if not isinstance(tree, dict):
        raise InputError(f"resume is {str(folder)!r}, whose config.yaml holds no settings; "
                         "allowed: the directory of an earlier run")
    return settings_from(tree)


def create_run(folder: Path, settings: Settings) -> None:
    """Make a run directory and store its settings; an existing run is not overwritten.

    Raises:
        InputError: a hospital file is wrong; the directory holds a run, or cannot be written.
    """
    for file in settings.hospitals:
        load_hospital(Path(file))  # before there is a run directory in the way of the next try
    for stage in STAGES if settings.start else ():
        started_from(settings.start, stage)
    try:
        if (folder / "config.yaml").exists():
            raise InputError(f"run directory {folder} exists; resume it with resume={folder}, or "
                             "choose another name")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(settings.as_dict(), sort_keys=False))
    except OSError as error:
        raise InputError(f"run directory is '{folder}'; it cannot be written: "
                         f"{error.strerror}") from None


def started_from(folder: str, stage: Stage) -> dict[str, Tensor]:
    """Weights of a stage of the run that another one starts from.

    Raises:
        InputError: the run has no such model.
    """
    file = Path(folder) / "models" / f"{stage}.safetensors"
    try:
        return load_state(file)
    except (OSError, SafetensorError) as error:
        raise InputError(f"start is '{folder}', whose model {file} cannot be read ({error}); "
                         "allowed: the directory of a finished run") from None


def run_id(folder: Path) -> str:
    """Stable across resumes, different between runs, and fit for a file name anywhere."""
    path = folder / "run.json"
    if not path.exists():
        name = re.sub(r"[^A-Za-z0-9]+", "-", folder.name)[:60].strip("-")
        write_json(path, {"run": f"run-{name}-{time.time_ns():x}"})
    return str(read_json(path)["run"])
