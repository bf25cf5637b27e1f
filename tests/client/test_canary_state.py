"""Canaries on disk: the same coins for all stages, scores that add up, rounds made again."""


from client.canary_state import CanaryState


def test_coins_are_drawn_once_and_weights_once_a_stage(tmp_path):
    first = CanaryState(tmp_path, 40).of("sex", 100)
    again, other = CanaryState(tmp_path, 40).of("sex", 100), CanaryState(tmp_path, 40).of("age", 60)
    assert (first.included == again.included).all() and (first.included == other.included).all()
    assert (first.weight == again.weight).all() and other.weight.max() < 60
    assert not again.score.any()


def test_rounds_add_up_and_one_made_again_replaces_itself(tmp_path):
    state = CanaryState(tmp_path, 1000)
    assert state.proved(1e-5) == {}
    for number, stage, size in ((1, "sex", -50.0), (1, "sex", 1.0), (2, "sex", 1.0)):
        canaries = state.of(stage, 1000)
        canaries.score[:] = size * canaries.included
        state.keep(stage, number, canaries)
    found = state.proved(1e-5)
    assert found["canaries"] == {"count": 1000, "correct": 200, "guesses": 200, "confidence": 0.95}
    assert 3 < found["lower_bound"] < 5  # ln(p / (1 - p)) with p = .05 ** (1 / 200), less delta


def test_without_canaries_nothing_is_proved(tmp_path):
    assert CanaryState(tmp_path, 0).proved(1e-5) == {} and not list(tmp_path.iterdir())
