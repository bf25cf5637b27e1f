"""Updates name their patient where the windows differ, and nobody under heavy noise."""

import torch
from torch import nn

from common.audits.gradient_inversion import private_updates, updates
from common.audits.gradient_linkage import flat, scores, templates
from common.audits.inversion import unit

LENGTH, PEOPLE = 40, 6


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(LENGTH, 4))


def windows(each, seed):
    """All people share most of their shape."""
    own = (3 * torch.randn(1, LENGTH, generator=seeded(1))
           + torch.randn(PEOPLE, LENGTH, generator=seeded(2)))
    owner = torch.arange(PEOPLE).repeat_interleave(each)
    noise = 0.2 * torch.randn(len(owner), LENGTH, generator=seeded(seed))
    return unit(own[owner] + noise)[:, None], owner


def hits(sigma):
    network, (x, owner), (known, known_owner) = linear(), windows(4, 3), windows(5, 4)
    y = torch.zeros(len(x), 1, dtype=torch.long)
    seen = private_updates(network, x[:, None], y, 1.0, sigma, seeded(5))
    found = scores(flat(seen), templates(network, known, known_owner, torch.arange(PEOPLE), 0))
    assert found.shape == (len(x), PEOPLE)
    return float((found.argmax(1) == owner).float().mean())


def test_updates_name_their_patient_until_noise_hides_them():
    assert hits(0.0) == 1.0
    assert hits(100.0) < 0.5


def test_what_all_share_does_not_count():
    """A shared direction, however long, moves no score."""
    known = torch.randn(PEOPLE, 30, generator=seeded(0))
    known = known + 50 * nn.functional.normalize(known.mean(0), dim=0)
    seen = known + 0.1 * torch.randn(PEOPLE, 30, generator=seeded(1))
    shared = nn.functional.normalize(known.mean(0), dim=0)
    assert torch.allclose(scores(seen, known), scores(seen + 9 * shared, known), atol=1e-4)
    assert (scores(seen, known).argmax(1) == torch.arange(PEOPLE)).all()


def test_templates_are_in_the_owners_order_and_gradients_have_length_one():
    network, (x, owner) = linear(), windows(3, 3)
    found = templates(network, x, owner, torch.tensor([4, 1]), 2)
    y = torch.full((len(x), 1), 2)
    rows = flat(updates(network, x[:, None], y))
    assert torch.allclose(rows.norm(dim=1), torch.ones(len(x)), atol=1e-5)
    assert torch.allclose(found[0], rows[owner == 4].mean(0), atol=1e-6)
    assert torch.allclose(found[1], rows[owner == 1].mean(0), atol=1e-6)


def test_of_a_large_gradient_the_same_places_are_compared():
    part = torch.randn(2, (1 << 17) + 5, generator=seeded(0))
    assert flat([part]).shape == (2, 1 << 17) and torch.equal(flat([part]), flat([part]))
