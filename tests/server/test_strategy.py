import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from common.errors import UpdateError
from server.strategy import NoDataError, SitewiseFedAvg, connected
from simulations.in_process_grid import InProcessGrid


def reply(site, value, examples=1, error="", shape=(2,)):
    InProcessGrid.identify()
    content = RecordDict({"reply": ConfigRecord({"site": site, "error": error})})
    if not error:
        content["arrays"] = ArrayRecord({"w": torch.full(shape, value)})
        content["metrics"] = MetricRecord({"num-examples": examples})
    return Message(content, dst_node_id=1, message_type="train")


def aggregate(*replies):
    lines = []
    strategy = SitewiseFedAvg({"w": (2,)}, 1, 0.0, lambda *line: lines.append(line), {})
    arrays, _ = strategy.aggregate_train(3, replies)
    return arrays["w"].numpy(), lines


def test_weighted_mean_in_any_reply_order():
    a, b, c = reply("a", 0.1, 1), reply("b", 0.7, 3), reply("c", 1e-3, 7)
    expected, lines = aggregate(a, b, c)
    again, _ = aggregate(c, a, b)
    assert np.array_equal(expected, again)
    assert np.allclose(expected, (0.1 + 3 * 0.7 + 7e-3) / 11)
    assert lines == []


@pytest.mark.parametrize(("bad", "words"), [
    (lambda: reply("b", float("nan")), "not finite: w"),
    (lambda: reply("b", float("inf")), "not finite: w"),
    (lambda: reply("b", 1.0, shape=(3,)), "(3,)"),
    (lambda: reply("b", 1.0, error="budget"), "privacy cap"),
    (lambda: reply("b", 1.0, examples=-1), "declares -1"),
    (lambda: reply("b", 1.0, examples=0), "declares 0"),
])
def test_unusable_replies_are_named_and_the_round_goes_on(bad, words):
    arrays, lines = aggregate(reply("a", 0.5), bad())
    assert np.allclose(arrays, 0.5)
    assert len(lines) == 1 and lines[0][0] == "b" and words in lines[0][1]


def test_no_usable_reply_stops_the_run():
    with pytest.raises(UpdateError, match="0 usable replies"):
        aggregate(reply("a", float("nan")))


def test_a_malformed_reply_is_left_out():
    bare, no_metrics = reply("b", 1.0), reply("c", 1.0)
    del bare.content["reply"], no_metrics.content["metrics"]
    arrays, lines = aggregate(reply("a", 0.5), bare, no_metrics)
    assert np.allclose(arrays, 0.5)
    assert sorted(why for _, why in lines) == ["a reply without its status",
                                               "a reply without metrics"]


def test_a_stage_without_data_is_told_from_a_failed_one():
    with pytest.raises(NoDataError):
        aggregate(reply("a", 1.0, error="no-windows"), reply("b", 1.0, error="no-windows"))
    with pytest.raises(UpdateError, match="privacy cap") as caught:
        aggregate(reply("a", 1.0, error="no-windows"), reply("b", 1.0, error="budget"))
    assert not isinstance(caught.value, NoDataError)


def test_a_missing_reply_is_told():
    lines = []
    strategy = SitewiseFedAvg({"w": (2,)}, 3, 0.0, lambda *line: lines.append(line), {})
    strategy.aggregate_train(2, [reply("a", 0.5)])
    assert lines == [("unknown (2 of 3)", "no reply in time")]


def test_waiting_for_hospitals_has_a_limit():
    grid = InProcessGrid(None, 1)
    assert connected(grid, 1, 0.0) == [1]
    with pytest.raises(UpdateError, match=r"1 of 3 hospitals are connected after 0\.1 s .*2 miss"):
        connected(grid, 3, 0.1)
