"""Step 7: metrics.json -> report.html, one page without outside resources."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml

from common.protocol import ATTACKS
from common.results import read_json
from server.bundles import load_bundles
from server.overrides import compose_settings
from server.report import figures, inversion_figure
from server.report.account_figure import bounds
from server.report.attack_figures import pictures
from server.report.findings import findings
from server.report.roc import rocs
from server.report.table import HEADER, accounts, cell, prose, result_rows


def write_report(folder: Path, examples: bool) -> Path:
    """Write RUN/report.html.

    Args:
        folder: run directory with metrics.json, and bundles where waveforms are shown.
        examples: whether waveforms may be printed; real patients' only by an explicit option.
    """
    metrics = read_json(folder / "metrics.json")
    waves = reconstructions = ""
    if examples and (folder / "bundles").exists():
        waves = figures.examples(load_bundles(folder / "bundles"),
                                 metrics["config"]["profile"]["sampling_rate"])
    if examples and "inversion" in metrics:
        reconstructions = inversion_figure.reconstructions(
            folder / metrics["networks"], metrics["config"]["profile"]["sampling_rate"])
    return render(
        "page.html", folder / "report.html",
        metrics=metrics, attacks=ATTACKS, pictures=pictures(metrics), header=HEADER,
        rows=result_rows(metrics), accounts=accounts(metrics), bounds=bounds(metrics),
        cell=cell, prose=prose,
        roc={name: rocs(metrics.get(name, {})) for name in ("membership", "membership_references")},
        trade_off=figures.trade_off(metrics), curves=figures.curves(metrics), waves=waves,
        reconstructions=reconstructions,
        config=yaml.safe_dump(metrics["config"], sort_keys=False), command=_command(metrics))


def write_audit(folder: Path, metrics: dict[str, Any], failed: Sequence[str]) -> Path:
    """Write the page of two folders' audit, audit.html.

    Args:
        folder: of the audit.
        metrics: what was found.
        failed: a line for each gate that does not hold.
    """
    return render("audit.html", folder / "audit.html", metrics=metrics, found=findings(metrics),
                  failed=failed, attacks=ATTACKS, pictures=pictures(metrics), cell=cell,
                  prose=prose)


def render(template: str, target: Path, **values: Any) -> Path:
    """Fill a template of this folder and write the page whole or not at all."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent),
                                     autoescape=True, undefined=jinja2.StrictUndefined)
    part = target.with_name(f"{target.name}.part")
    part.write_text(environment.get_template(template).render(**values))
    part.replace(target)
    return target


def _command(metrics: dict[str, Any]) -> str:
    """The command that repeats the run: the named groups, then every setting that differs."""
    config = metrics["config"]
    words = [f"profile={config['profile']['name']}", f"privacy={config['privacy']['unit']}"]
    plain = compose_settings(words).as_dict()
    words += [f"{key}={value}" for key, value in _leaves(config).items()
              if value != _leaves(plain).get(key)]
    return " ".join(["fedrean simulate", *map(shlex.quote, words)])


def _leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, str]:
    leaves: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            leaves |= _leaves(value, f"{prefix}{key}.")
        else:
            leaves[prefix + key] = f"[{','.join(value)}]" if isinstance(value, list) else str(value)
    return leaves
