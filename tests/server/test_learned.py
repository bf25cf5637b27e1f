"""Witnesses that are too weak are named."""

from server.learned import unlike


def tree(value, n):
    return {"same session": {"fiducial": {"clean": {"top1": {"value": value, "n": n}}}}}


def test_embeddings_in_which_nobody_is_like_himself_are_named():
    assert "fiducial embeddings name 0.010 of the clean windows (same session" in unlike(
        tree(0.01, 82))[0]
    assert unlike(tree(0.8, 82)) == [] == unlike(tree(0.01, 5)) == unlike({})
