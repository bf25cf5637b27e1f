"""The noise is standard Gaussian, fresh on every call, and the batches are Poisson."""

import os

import numpy as np
import pytest
import torch
from scipy import stats

from common.errors import InputError
from common.privacy import noise
from common.privacy.noise import poisson_indices, standard_gaussian

N = 400_000


def test_distribution() -> None:
    """Limits at six standard errors: a failure by chance is about one in 10^8."""
    draws = standard_gaussian((N,), "cpu").double().numpy()
    assert abs(draws.mean()) < 6 / N**0.5
    assert abs(draws.var() - 1) < 6 * (2 / N) ** 0.5
    assert abs(stats.kurtosis(draws)) < 6 * (24 / N) ** 0.5
    assert stats.kstest(draws, "norm").statistic < 3.3 / N**0.5


def test_neighbours_and_chunks_are_uncorrelated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_CHUNK", N // 4)
    draws = standard_gaussian((N,), "cpu").double().numpy()
    for lag in (1, 2, N // 8, N // 4, N // 2):
        corr = np.mean(draws[lag:] * draws[:-lag])
        assert abs(corr) < 6 / (N - lag) ** 0.5


def test_two_calls_differ_and_no_seed_matters() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    first = standard_gaussian((100,), "cpu")
    torch.manual_seed(0)
    np.random.seed(0)
    assert not torch.isin(standard_gaussian((100,), "cpu"), first).any()


def test_forked_processes_differ() -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, noise._uniform(4).tobytes())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 32) != noise._uniform(4).tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 5), (2, 3, 5)])
def test_shape_and_type(shape: tuple[int, ...]) -> None:
    draws = standard_gaussian(shape, torch.device("cpu"))
    assert draws.shape == shape and draws.dtype == torch.float32 and draws.isfinite().all()


def test_keystream_extremes_stay_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (0.0, 1.0 - 2.0**-53):
        monkeypatch.setattr(noise, "_uniform", lambda n, v=value: np.full(n, v))
        assert standard_gaussian((8,), "cpu").isfinite().all()


def test_poisson_counts_are_binomial() -> None:
    n, q, repeats = 186, 0.3, 2000
    counts = np.zeros(n)
    sizes = []
    for _ in range(repeats):
        chosen = poisson_indices(n, q)
        assert chosen.dtype == np.int64 and (np.diff(chosen) > 0).all()
        counts[chosen] += 1
        sizes.append(len(chosen))
    spread = (n * q * (1 - q)) ** 0.5
    assert abs(np.mean(sizes) - n * q) < 6 * spread / repeats**0.5
    assert abs(np.std(sizes) / spread - 1) < 6 / (2 * repeats) ** 0.5
    assert np.abs(counts / repeats - q).max() < 7 * (q * (1 - q) / repeats) ** 0.5


def test_poisson_edges() -> None:
    assert poisson_indices(0, 0.5).size == 0
    assert poisson_indices(50, 0.0).size == 0
    np.testing.assert_array_equal(poisson_indices(50, 1.0), np.arange(50))


@pytest.mark.parametrize(("n", "q"), [(-1, 0.5), (5, -0.1), (5, 1.1), (5, float("nan"))])
def test_poisson_refuses(n: int, q: float) -> None:
    with pytest.raises(InputError):
        poisson_indices(n, q)


def test_negative_size_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        standard_gaussian((2, -1), "cpu")
