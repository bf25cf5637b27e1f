"""`fedrean audit`: attack two folders, or a finished run with more attacks than it had."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from common.errors import InputError
from simulations.study_commands import clock

if TYPE_CHECKING:
    from common.config import Settings
    from server.arrays import Arrays
    from server.bundles import Bundles
    from server.folders import Folders
    from server.report.findings import Finding


_SHOWN = 4  # attacks of each kind in the terminal


def audit(
    overrides: Annotated[list[str] | None, typer.Argument(
        help="Hydra overrides such as profile=small audit.steps=4000 "
             "'audit.attacks=[identification]'; default: every attack that needs no more than "
             "windows.")] = None,
    original: Annotated[Path | None, typer.Option(help="Folder of the original WFDB records; or "
                                                       ".npy of windows [n, leads, samples] or "
                                                       "embeddings [n, d].")] = None,
    released: Annotated[Path | None, typer.Option(help="Folder of the released ones, under the "
                                                       "same names; or .npy, row by row the "
                                                       "same.")] = None,
    run: Annotated[Path | None, typer.Option(help="Instead of two folders: a finished run.")]
    = None,
    subjects: Annotated[str, typer.Option(help="record, folder, or a CSV with columns record and "
                                               "patient; default: folder where records lie in "
                                               "folders below, else record. Of .npy a CSV with a "
                                               "row for each of theirs: patient, and where known "
                                               "record, sex, age.")] = "",
    leads: Annotated[str, typer.Option(help="Names of the lead with commas, the preferred first; "
                                            "default: each record's first.")] = "",
    labels: Annotated[str, typer.Option(help="How the originals are annotated, as in a hospital "
                                             "file: beats+rhythm, beats, rhythm-comments, none.")]
    = "none",
    run_dir: Annotated[Path | None, typer.Option(help="Folder of the audit; default "
                                                      "audits/<date-time>. An existing one goes "
                                                      "on.")] = None,
    fail_above: Annotated[list[str] | None, typer.Option(
        help="Exit 1 if any attack tells more, as in reid=0.1; also sex, age, recording. Sex "
             "counts by its distance from one half.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print metrics.json.")] = False,
) -> None:
    """Attack a release as hard as a determined recipient could: anybody's, in two WFDB folders.

    Records are paired by name and time. A release is read as it was written, in mV or normalized
    units; no training internals are needed. Attacks are trained until they succeed on the
    originals, and every figure stands beside that.

    \b
    fedrean audit --original ecgiddb --released anonymized --fail-above reid=0.1
    fedrean audit --original mitdb --released out --labels beats+rhythm profile=small
    fedrean audit --original clean.npy --released anonymized.npy --subjects rows.csv
    fedrean audit --run runs/20261130-101500 audit=full
    """
    from server.report.findings import failures, findings, parse_gates

    gates = parse_gates(fail_above or [])
    console = Console(stderr=as_json)
    if run:
        metrics, page = _of_run(run, overrides or [], console)
    elif original and released:
        from server.arrays import Arrays
        from server.folders import Folders

        given = Arrays(original, released, Path(subjects)) if original.suffix == ".npy" else \
            Folders(original, released, subjects,
                    tuple(name for name in leads.split(",") if name), labels)
        metrics, page = _of_release(given, overrides or [], run_dir, gates, console)
    else:
        raise InputError(f"original is {original}, released is {released}, run is {run}; allowed "
                         "is --original and --released, or --run")
    found = findings(metrics)
    if as_json:
        print(json.dumps(metrics, indent=1))
    else:
        _show(found, metrics, console)
        console.print(f"page: {page}", soft_wrap=True)
    failed = failures(found, gates)
    for line in failed:
        print(f"fedrean: {line}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _of_run(folder: Path, words: Sequence[str], console: Console) -> tuple[dict[str, Any], Path]:
    """Attack a finished run again, with other settings of `audit`; its metrics and report."""
    from common.protocol import ATTACKS
    from common.results import read_json, write_json
    from server.attacks.case import Case
    from server.auditor import asked_of
    from server.auditor import audit as attack
    from server.bundles import load_bundles
    from server.overrides import compose_settings
    from server.report.page import write_report
    from server.run_directory import open_run

    settings = open_run(folder)
    if words:
        own = [f"audit.{key}={value}" for key, value in asked_of(settings, "encoders").items()]
        wanted = compose_settings([*own, *words]).audit  # of two of the same, the last counts
        settings = replace(settings, audit=wanted)
    old = read_json(folder / "metrics.json")
    kept = folder / "audit"
    if _key(settings) != _key(open_run(folder)):
        kept = folder / f"audit-{_key(settings)}"  # networks of other settings stay apart
    found = attack(Case(load_bundles(folder / "bundles"), settings, kept, clock(console),
                        folder / "models"))
    rest = {key: tree for key, tree in old.items() if key not in ATTACKS}
    write_json(folder / "metrics.json", {**rest, **found})
    page = write_report(folder, examples=not settings.hospitals or settings.audit.examples)
    return read_json(folder / "metrics.json"), page


def _of_release(given: Folders | Arrays, words: Sequence[str], run_dir: Path | None,
                gates: dict[str, float], console: Console) -> tuple[dict[str, Any], Path]:
    """Attack two folders or arrays; metrics and page."""
    from common.results import read_json, write_json
    from server.arrays import Arrays, load_arrays
    from server.attacks.case import Case
    from server.auditor import audit as attack
    from server.auditor import audit_embeddings
    from server.folders import load_folders
    from server.overrides import compose_settings
    from server.report.findings import failures, findings
    from server.report.page import write_audit

    embedded = isinstance(given, Arrays) and given.embedded
    settings = compose_settings([f"audit={'embeddings' if embedded else 'folders'}", *words])
    folder = run_dir or Path(f"audits/{time.strftime('%Y%m%d-%H%M%S')}")
    tell = clock(console)
    if isinstance(given, Arrays):
        bundles = load_arrays(given, settings)
    else:
        bundles = load_folders(given, settings, folder / "windows", tell)
    kept = folder / f"audit-{_key(settings)}-{_content(bundles)}"
    kept.mkdir(parents=True, exist_ok=True)
    metrics = (audit_embeddings if embedded else attack)(Case(bundles, settings, kept, tell))
    metrics["release"] = {
        "original": str(given.original), "released": str(given.released),
        "windows": len(bundles.patient),
        "released_windows": int(np.sum(~np.isnan(bundles.released[:, 0, 0]))),
        "command": " ".join(["fedrean", *map(shlex.quote, sys.argv[1:])])}
    write_json(folder / "metrics.json", metrics)
    found = read_json(folder / "metrics.json")
    return found, write_audit(folder, found, failures(findings(found), gates))


def _content(bundles: Bundles) -> str:
    """Digest of what was given: other windows or other owners are another audit."""
    digest = hashlib.sha256()
    for array in (bundles.clean, bundles.released, bundles.patient, bundles.record):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:8]


def _key(settings: Settings) -> str:
    """Digest of what the auditor's networks depend on; which and how many are made does not."""
    from server.auditor import asked_of

    text = repr((asked_of(settings, "encoders", "seeds"), settings.profile, settings.seed,
                 settings.labels))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _show(found: Sequence[Finding], metrics: dict[str, Any], console: Console) -> None:
    from server.report.findings import GATES, of_kind
    from server.report.table import cell

    table = Table(title="What an attacker can do with this release", box=box.HORIZONTALS,
                  show_edge=False, padding=(0, 1, 0, 0))
    for title in ("tells", "attack", "released", "clean", "chance"):
        table.add_column(title, overflow="fold")
    for one in [one for kind in GATES for one in of_kind(found, kind)[:_SHOWN]]:
        table.add_row(one.kind, one.attack, cell(one.released), cell(one.clean).split(" ")[0],
                      cell({"value": one.released["chance"], "low": None}))
    console.print(table)
    if len(found) > table.row_count:
        console.print(f"{len(found) - table.row_count} further attacks are on the page",
                      highlight=False)
    for line in metrics["warnings"]:
        console.print(f"Warning: {line}", highlight=False)

