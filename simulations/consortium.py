"""A whole run on one host: prepare, train, release, audit, report (steps 1 to 7)."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from flwr.app import Context

from client.client_app import make_client_app
from common.config import Settings, settings_from
from common.ecg.databases import load_hospital
from common.ecg.synthetic import CohortSettings, write_consortium
from common.ecg.windows import Store, WindowSettings, pool, prepare
from common.errors import InputError
from common.results import read_json, write_json
from server.auditor import audit
from server.bundles import load_bundles
from server.report.page import write_report
from server.workflow import Progress, Workflow
from simulations.in_process_grid import InProcessGrid

log = logging.getLogger("fedrean.simulation")


@dataclass(frozen=True)
class Site:
    """A simulated hospital: its name and prepared windows."""

    name: str
    store: Store


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
    try:
        if (folder / "config.yaml").exists():
            raise InputError(f"run directory {folder} exists; resume it with resume={folder}, or "
                             "choose another name")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(settings.as_dict(), sort_keys=False))
    except OSError as error:
        raise InputError(f"run directory is '{folder}'; it cannot be written: "
                         f"{error.strerror}") from None


def prepare_sites(settings: Settings, data: Path, progress: Progress) -> tuple[list[Site],
                                                                               list[str]]:
    """Step 1: windows of every hospital, and a line for each hospital that cannot take part."""
    files = [Path(name) for name in settings.hospitals] or _embedded(settings, data)
    hospitals = [load_hospital(file) for file in files]  # a wrong file stops the run, here
    names = [hospital.name for hospital in hospitals]
    if len(set(names)) < len(names):
        raise InputError(f"hospital names are {names}; each must be different")
    windows = WindowSettings(settings.profile.sampling_rate, settings.profile.seconds,
                             settings.reserved, settings.seed)
    sites, skipped = [], []
    for number, hospital in enumerate(hospitals, start=1):
        try:
            store = prepare(hospital, data / "stores", windows, workers=settings.threads)
            sites.append(Site(hospital.name, store))
        except InputError as error:
            skipped.append(f"hospital file {hospital.file} left out: {error}")
            log.warning(skipped[-1])
        progress("prepare", number, len(files))
    if not sites:
        raise InputError("0 hospitals can take part; at least 1 is needed: " + "; ".join(skipped))
    if settings.training == "pooled":
        sites = [Site("pooled", pool([site.store for site in sites], data / "stores"))]
    return sites, skipped


def _embedded(settings: Settings, data: Path) -> list[Path]:
    cohort = CohortSettings(settings.cohort.patients, settings.cohort.minutes, settings.seed)
    key = hashlib.sha256(repr(cohort).encode()).hexdigest()[:10]
    folder = data / f"embedded-{key}"
    files = sorted(folder.glob("*/hospital.yaml"))
    return files if len(files) == 4 else write_consortium(folder, cohort)


def run(folder: Path, settings: Settings, data: Path, progress: Progress) -> dict[str, Any]:
    """Do the run, or what is left of it; the metrics tree."""
    started = time.perf_counter()
    # 1. Prepare.
    sites, skipped = prepare_sites(settings, data, progress)
    # 2-5. Train, freeze, train the anonymizer, release.
    groups = [[site] for site in sites] if settings.training == "local" else [sites]
    workflows = [_federate(folder, settings, group, progress) for group in groups]
    trained = time.perf_counter()
    # 6. Audit.
    bundles = load_bundles(folder / "bundles")
    metrics = audit(bundles, settings, folder / "audit",
                    lambda what: progress(f"audit: {what}", 0, 0))
    metrics["skipped"] = skipped + [line for flow in workflows for line in flow.journal.lines()]
    metrics["curves"] = {f"{'' if len(groups) == 1 else group[0].name + ' '}{stage}": losses
                         for group, flow in zip(groups, workflows, strict=True)
                         for stage, losses in flow.journal.losses.items()}
    now = time.perf_counter()
    metrics["timing"] = {"prepare_and_train_s": trained - started, "audit_s": now - trained}
    write_json(folder / "metrics.json", metrics)
    # 7. Report.
    write_report(folder, examples=not settings.hospitals or settings.audit.examples)
    return metrics


def _run_id(folder: Path) -> str:
    """Stable across resumes, different between runs."""
    path = folder / "run.json"
    if not path.exists():
        write_json(path, {"run": f"{folder.name}-{time.time_ns():x}"})
    return str(read_json(path)["run"])


def _federate(folder: Path, settings: Settings, sites: list[Site], progress: Progress) -> Workflow:
    """Steps 2 to 5 on an in-process grid of these sites."""
    nodes = [{"site": site.name, "store": str(site.store.path),
              "state": str(folder / "hospitals" / site.name),
              "ledger": str(folder / "ledgers" / f"{site.name}.sqlite"),
              "export": str(folder / "bundles")} for site in sites]
    for part in ("ledgers", "bundles"):
        (folder / part).mkdir(exist_ok=True)

    def node_config(context: Context) -> dict[str, str]:
        return nodes[int(context.node_config["partition-id"])]

    grid = InProcessGrid(make_client_app(node_config), len(nodes))
    leads = {site.store.windows.shape[1] for site in sites}
    if len(leads) > 1:
        raise InputError(f"hospitals have {sorted(leads)} leads; all must have the same number")
    server = folder / sites[0].name if settings.training == "local" else folder
    flow = Workflow(grid, settings, _run_id(folder), server, len(nodes), leads.pop(), progress)
    flow.start()
    return flow
