"""The linkage study: what stands in its tables and figures, and that finished cells are kept."""

import pytest
from typer.testing import CliRunner

import fedrean
from common.errors import InputError
from simulations import population
from simulations.population import Population
from simulations.studies import linkage
from simulations.studies.linkage import Cell, cells, study
from simulations.studies.linkage_page import panels, write_page
from simulations.studies.linkage_tables import tables


@pytest.fixture
def small(monkeypatch):
    """A registry of which national populations are drawn in no time."""
    monkeypatch.setattr(population, "REGISTRANTS", 50_000)
    yield
    population._three_states.cache_clear()


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    folder, told = tmp_path_factory.mktemp("study"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linkage, "SMALLEST_DRAWN", 10_000)
        return folder, study(folder, 40_000, 2, told.append), told


def test_tables_show_ours_beside_the_papers(studied):
    _, results, told = studied
    assert told[0] == f"1 of {len(told)}: alone FL+NC+OH 10000 ABCDEFP, seed 0"
    assert len(told) == 2 * 3 * (2 + 3)  # seeds, sizes, two of three states and each state
    made = {title[:7]: rows for title, (_, rows) in tables(results).items()}
    assert made["Table 1"] == made["Table 2"] == []
    assert [row[0] for row in made["Table 3"]] == ["10,000", "20,000", "40,000"]
    ours, paper, apart = made["Table 3"][2][7:10]
    assert paper == "0.796" and float(ours) == pytest.approx(0.796, rel=0.25)
    assert float(apart) == pytest.approx(100 * (float(ours) / 0.796 - 1), abs=1)
    assert made["Twins, "][2][3::3] == ["0.005", "0"]  # the paper's B and D
    leaf = results["cells"]["alone-FL+NC+OH-40000-ABCDEFP"]["C"]["non_unique"]
    assert 100 * leaf["value"] == pytest.approx(float(ours), abs=1e-3)
    assert leaf["low"] < leaf["value"] < leaf["high"] and leaf["n"] == 40_000


def test_every_figure_says_that_people_are_synthetic(studied):
    folder, results, _ = studied
    page = write_page(folder, results).read_text()
    drawn = [title for title in panels(results["cells"])]
    assert page.count("synthetic people, not a voter registry") == len(drawn) == 7
    assert [title[7] for title in drawn] == list("2234556")


def test_a_line_joins_cells_that_differ_in_their_size_alone():
    def leaf(value):
        return {"reidentified": {"value": value}}

    lines = panels({
        "alone-national-2000000-ABCEF": {"A": leaf(.02), "B": leaf(.03)},
        "alone-national-1000000-ABCEF": {"A": leaf(.01), "B": leaf(.015)},
        "alone-national-1000000-AB-30zip3s": {"A": leaf(.004), "B": leaf(.005)},
        "superset-national-1000000-B-2x": {"B": leaf(.9)},
        "together-national-1000000-AB": {"A+B": leaf(.05)}})
    assert lines["Figure 3: national"]["A"] == [(1_000_000, 1.0), (2_000_000, 2.0)]
    assert lines["Figure 4: two tokens a person, national"] == {
        "A": [(1_000_000, 1.0)], "B": [(1_000_000, 1.5)], "A and B": [(1_000_000, 5.0)]}
    few = lines["Figure 5: people in few 3-digit ZIPs, B"]
    assert few["30"] == [(1_000_000, 0.5)] and few["all"] == [(1_000_000, 1.5)]


def test_the_mean_of_states_is_drawn_beside_the_three_together(studied):
    lines = panels(studied[1]["cells"])["Figure 2: three states; dashed: mean of each, C"]
    together, apart = (dict(lines[name]) for name in ("C", "C, mean of each"))
    # As many people of one state are closer, so more share a token.
    assert set(together) == set(apart) and apart[40_000] > 1.3 * together[40_000] > 0


def test_what_is_done_is_kept(studied):
    folder, results, _ = studied
    again = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linkage, "SMALLEST_DRAWN", 10_000)
        assert study(folder, 40_000, 2, again.append)["cells"] == results["cells"]
    assert again == []


def test_references_that_hold_more_people_tell_less(small):
    of = Population(100_000, 0, "national")
    told = [Cell(of, "B", *kind).run()["B"]["reidentified"] for kind in (
        ("alone", 1), ("superset", 2), ("superset", 4))]
    assert told[0] > told[1] > told[2] > 0


def test_two_tokens_tell_more_than_either(small):
    of = Population(200_000, 0, "national")
    both = Cell(of, "AB", "together").run()["A+B"]
    alone = Cell(of, "AB").run()
    assert both["reidentified"] > max(alone[t]["reidentified"] for t in "AB")


def test_few_zips_and_no_year_tell_less(small):
    many, few = (Cell(Population(400_000, 0, "national", zip3s), "B").run()["B"]
                 for zip3s in (0, 3))
    assert few["reidentified"] < many["reidentified"] / 2
    three = Cell(Population(400_000), "B").run()
    assert three["B, no year"]["reidentified"] < three["B"]["reidentified"]


def test_cells_of_the_papers_sizes_are_all_there():
    asked = {cell.group for cell in cells(250_000_000, 0)}
    assert "alone-FL+NC+OH-25000000-ABCDEFP" in asked and "alone-national-250000000-ABCEF" in asked
    assert "superset-national-50000000-B-4x" in asked and "together-national-25000000-AB" in asked
    assert "alone-national-25000000-AB-30zip3s" in asked and len(asked) == len(
        list(cells(250_000_000, 0)))
    assert "superset-national-50000000-B-4x" not in {c.group for c in cells(199_000_000, 0)}


@pytest.mark.parametrize(("words", "line"), [
    (["--largest", "9999"], "largest is 9999; allowed: 10000"),
    (["--seeds", "0"], "seeds is 0; allowed: 1 or more")])
def test_numbers_out_of_range_are_refused(tmp_path, words, line):
    result = CliRunner().invoke(fedrean.app, ["study", "linkage", *words, "--run-dir",
                                              str(tmp_path / "a")])
    assert isinstance(result.exception, InputError) and line in str(result.exception)
