"""A whole run on one host: prepare, train, release, audit, report (steps 1 to 7)."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from client.client_app import make_client_app
from client.feasibility import check_privacy
from client.hospital import check_leads
from client.node import Node, window_settings
from common.config import Settings
from common.ecg.hospital_file import load_hospital
from common.ecg.synthetic import CohortSettings, write_consortium
from common.ecg.windows import Store, pool, prepare
from common.errors import InputError
from common.results import write_json
from server.attacks.case import Case
from server.auditor import audit
from server.bundles import load_bundles
from server.report.page import write_report
from server.run_directory import run_id
from server.workflow import Progress, Workflow
from simulations.in_process_grid import InProcessGrid

ENGINES = ("inprocess", "ray")
log = logging.getLogger("fedrean.simulation")


@dataclass(frozen=True)
class Site:
    """A simulated hospital: its name and prepared windows."""

    name: str
    store: Store


def prepare_sites(settings: Settings, data: Path, progress: Progress) -> tuple[list[Site],
                                                                               list[str]]:
    """Step 1: windows of every hospital, and a line for each hospital that cannot take part."""
    files = [Path(name) for name in settings.hospitals] or _embedded(settings, data)
    hospitals = [load_hospital(file) for file in files]  # a wrong file stops the run, here
    names = [hospital.name for hospital in hospitals]
    if len(set(names)) < len(names):
        raise InputError(f"hospital names are {names}; each must be different")
    windows = window_settings(settings)
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
    for site in sites:
        check_leads(site.name, site.store, settings)
    if settings.training == "pooled":
        sites = [Site("pooled", pool([site.store for site in sites], data / "stores"))]
    for site in sites:
        check_privacy(site.name, site.store, settings)
    return sites, skipped


def _embedded(settings: Settings, data: Path) -> list[Path]:
    cohort = CohortSettings(settings.cohort.patients, settings.cohort.minutes, settings.seed,
                            settings.cohort.shift)
    key = hashlib.sha256(repr(cohort).encode()).hexdigest()[:10]
    folder = data / f"embedded-{key}"
    files = sorted(folder.glob("*/hospital.yaml"))
    if len(files) < 4:
        files = sorted(write_consortium(folder, cohort))  # pooled windows keep their order
    return files


def run(folder: Path, settings: Settings, data: Path, progress: Progress) -> dict[str, Any]:
    """Do the run, or what is left of it; the metrics tree."""
    if settings.engine not in ENGINES:
        raise InputError(f"engine is {settings.engine!r}; allowed in a simulation: "
                         f"{', '.join(ENGINES)}")
    torch.set_num_threads(settings.threads)
    started = time.perf_counter()
    # 1. Prepare.
    sites, skipped = prepare_sites(settings, data, progress)
    # 2-5. Train, freeze, train the anonymizer, release.
    groups = [[site] for site in sites] if settings.training == "local" else [sites]
    workflows = [federate(folder, settings, group, progress) for group in groups]
    trained = time.perf_counter()
    # 6. Audit.
    bundles = load_bundles(folder / "bundles")
    metrics = audit(Case(bundles, settings, folder / "audit",
                         lambda what: progress(f"audit: {what}", 0, 0), folder / "models"))
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


def federate(folder: Path, settings: Settings, sites: list[Site], progress: Progress) -> Workflow:
    """Steps 2 to 5 on a grid of these sites."""
    for part in ("ledgers", "bundles"):
        (folder / part).mkdir(exist_ok=True)
    nodes = [Node(site.name, state=str(folder / "hospitals" / site.name),
                  ledger=str(folder / "ledgers" / f"{site.name}.sqlite"),
                  store=str(site.store.path), export=str(folder / "bundles"),
                  public=str(folder / "public")) for site in sites]
    app = make_client_app(lambda context: nodes[int(context.node_config["partition-id"])])
    server = folder / sites[0].name if settings.training == "local" else folder
    flow = Workflow(settings, run_id(folder), server, len(nodes), progress)
    if settings.engine == "ray":
        from simulations.ray_engine import run_on_ray

        run_on_ray(app, len(nodes), settings, flow.start)
    else:
        flow.start(InProcessGrid(app, len(nodes)))
    return flow
