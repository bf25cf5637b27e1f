"""The sections of utility, unseen attackers and purifiers, from made figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest

import server.report.page as page
from common.results import Estimate, to_plain
from server.report.table import cell, prose

LEAF = Estimate(0.512, 0.401, 0.623, 60, 0.25)
LEAKS = {"reid": LEAF, "reid_reserved": LEAF, "sex": LEAF, "age": LEAF}
JUDGED = {"macro_auroc": LEAF, "arrhythmia_accuracy": LEAF, "auroc": {"Normal": LEAF, "PVC": LEAF}}
NETWORK = {"clean": JUDGED, "released": JUDGED, "gain": Estimate(-0.0123, -0.02, -0.004, 60)}
PEAKS = {"sensitivity": LEAF, "positive_predictivity": LEAF}
INTERVAL = {"found": {"clean": LEAF, "released": LEAF}, "difference": LEAF, "within": LEAF,
            "clean": LEAF, "released": LEAF, "patients": LEAF}
METRICS: dict[str, Any] = to_plain({
    "purified": {
        "none": {version: {**LEAKS, "prd": LEAF} for version in ("released", "clean")},
        "low_pass": {"skipped": "low-pass is 40 Hz; allowed is below 25 Hz"},
        "restorer": {version: {**LEAKS, "prd": Estimate(5.07, 4, 6, 60)}
                     for version in ("released", "clean")}},
    "unseen": {"resnet1d": {"clean": LEAKS, "released": LEAKS, "flags": []},
               "cnn_lstm-1": {"clean": LEAKS, "released": LEAKS, "flags": ["cnn_lstm-1 is weak"]}},
    "utility": {
        "patients": {
            "in training": {"networks": {name: NETWORK for name in
                                         ("retrained", "frozen", "resnet1d", "cnn_lstm")},
                            "excess": LEAF},
            "reserved": {"networks": {"retrained": NETWORK, "resnet1d": NETWORK}}},
        "flags": ["the label was written into the signal"],
        "waves": {"windows": 200, "failed": {"clean": LEAF, "released": LEAF}, "r_peaks": PEAKS,
                  "annotated": {}, "intervals": {name: INTERVAL for name in ("QRS", "PR", "QT")}},
        "beats": {"windows": 200, "agreement": LEAF, "kept": {"N": LEAF, "S": LEAF}}}})


def filled(name: str, metrics: dict[str, Any]) -> str:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(page.__file__).parent),
                                     autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template(f"sections/{name}.html").render(
        metrics=metrics, cell=cell, prose=prose)


@pytest.mark.parametrize("name", ["utility", "unseen", "purified"])
def test_a_section_is_filled_and_its_rows_are_as_wide_as_its_head(name: str) -> None:
    html = filled(name, METRICS)
    assert ".512<br><small>.401-.623</small>" in html
    for table in html.split("<table>")[1:]:
        rows = [row.split("</tr>")[0] for row in table.split("</table>")[0].split("<tr>")[1:]]
        widths = {row.count("<td") + 7 * row.count('colspan="8"') for row in rows if "<td" in row}
        head = sum(int(cell.split('"')[1]) if 'colspan="' in cell and "rowspan" not in cell else 1
                   for cell in rows[0].split("<th")[1:])
        assert widths == {head}


def test_warnings_are_shown() -> None:
    assert '<p class="warn">cnn_lstm-1 is weak</p>' in filled("unseen", METRICS)
    assert '<p class="warn">the label was written' in filled("utility", METRICS)
    assert "not applied: low-pass is 40 Hz" in filled("purified", METRICS)
    assert "-.012<br><small>-.020\u2009to\u2009-.004</small>" in filled("utility", METRICS)
