"""The importance-weighted bound: one weight per datum, the plate's scale outside the logarithm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from pyro.infer import RenyiELBO, Trace_ELBO
from torch import Tensor

from pyro_gcm.inference import ImportanceWeightedELBO

ROWS, FULL, DIM = 64, 640, 2
Log = list[tuple[Tensor, Tensor]]

particles = pytest.mark.parametrize("num_particles", [1, 32], ids=lambda n: f"N={n}")
orders = pytest.mark.parametrize("alpha", [0.0, 0.5, -1.0, 2.0], ids=lambda a: f"alpha={a}")
loops = pytest.mark.parametrize("vectorized", [True, False], ids=["vectorised", "looped"])


def whole() -> Any:
    return pyro.plate("data", FULL)


def random_rows() -> Any:
    return pyro.plate("data", FULL, subsample_size=ROWS)


def given_rows() -> Any:
    return pyro.plate("data", FULL, subsample=torch.arange(0, FULL, FULL // ROWS))


plates = pytest.mark.parametrize(
    ("plate", "rows"),
    [(whole, FULL), (random_rows, ROWS), (given_rows, ROWS)],
    ids=["whole", "subsample_size", "subsample"],
)


class Toy:
    """z ~ N(a x, I), y ~ N(sum z, s^2); q(z) = N(b x + y, t^2). Keeps the draws of its guide."""

    def __init__(self, plate: Callable[[], Any] = whole) -> None:
        self.plate = plate
        g = torch.Generator().manual_seed(3)
        self.x = torch.randn(FULL, DIM, generator=g, dtype=torch.float64)
        self.y = torch.randn(FULL, generator=g, dtype=torch.float64)
        self.parameters = [
            torch.tensor(value, dtype=torch.float64, requires_grad=True)
            for value in (0.7, -0.2, 0.4, 0.3)  # a, log s, b, log t
        ]
        self.drawn: Log = []

    def model(self) -> None:
        a, log_s, _, _ = self.parameters
        with self.plate() as index:
            z = pyro.sample("z", dist.Normal(a * self.x[index], 1.0).to_event(1))
            pyro.sample("y", dist.Normal(z.sum(-1), log_s.exp()), obs=self.y[index])

    def guide(self) -> None:
        with self.plate() as index:
            z = pyro.sample("z", dist.Normal(*self._q(index)).to_event(1))
            self.drawn.append((index, z))

    def _q(self, index: Tensor) -> tuple[Tensor, Tensor]:
        _, _, b, log_t = self.parameters
        return b * self.x[index] + self.y[index, None], log_t.exp()

    def log_weights(self) -> Tensor:
        """log w [N, B] of the guide's draws, each a function of the parameters once more."""
        a, log_s, _, _ = self.parameters
        rows = []
        for index, z in self.drawn:
            x, y, (loc, scale) = self.x[index], self.y[index], self._q(index)
            z = loc + scale * ((z - loc) / scale).detach()
            log_p = normal(z, a * x, torch.ones_like(a)).sum(-1) + normal(
                z.sum(-1), 0.0, log_s.exp(), y
            )
            rows.append((log_p - normal(z, loc, scale).sum(-1)).reshape(-1, len(index)))
        return torch.cat(rows)


def normal(value: Tensor, loc: Any, scale: Tensor, at: Tensor | None = None) -> Tensor:
    """log N(value; loc, scale), or of `at` around `value`."""
    u = (value - loc if at is None else at - value) / scale
    return -0.5 * u * u - scale.log() - 0.5 * math.log(2.0 * math.pi)


def bound(log_w: Tensor, alpha: float = 0.0) -> Tensor:
    """sum_i 1/(1 - alpha) log 1/N sum_n w_in^(1 - alpha), without any trick."""
    return (log_w.exp() ** (1.0 - alpha)).mean(0).log().sum() / (1.0 - alpha)


def same_loss_and_gradients(toy: Toy, loss: Tensor, expected: Tensor) -> None:
    # A mean over rows, so that 1e-6 means the same for every plate.
    torch.testing.assert_close(loss / FULL, expected / FULL, rtol=0, atol=1e-6)
    gradient = torch.autograd.grad(loss, toy.parameters, retain_graph=True)
    wanted = torch.autograd.grad(expected, toy.parameters)
    for mine, theirs in zip(gradient, wanted, strict=True):
        assert theirs.abs() > 1e-3
        torch.testing.assert_close(mine / FULL, theirs / FULL, rtol=0, atol=1e-6)


@plates
@particles
@orders
@loops
def test_loss_and_gradients_equal_the_hand_written_bound_per_datum(
    plate: Callable[[], Any], rows: int, num_particles: int, alpha: float, vectorized: bool
) -> None:
    toy = Toy(plate)
    elbo = ImportanceWeightedELBO(
        num_particles, alpha, max_plate_nesting=1, vectorize_particles=vectorized
    )
    loss = elbo.differentiable_loss(toy.model, toy.guide)
    log_w = toy.log_weights()
    assert log_w.shape == (num_particles, rows)
    # A column of weights belongs to one row: every particle has the rows of the first.
    assert all(torch.equal(index, toy.drawn[0][0]) for index, _ in toy.drawn)
    same_loss_and_gradients(toy, loss, -(FULL / rows) * bound(log_w, alpha))


@pytest.mark.parametrize("alpha", [0.0, 0.5], ids=lambda a: f"alpha={a}")
def test_loss_equals_pyros_renyi_elbo_where_that_is_per_datum(alpha: float) -> None:
    toy = Toy(whole)
    options = {"num_particles": 16, "max_plate_nesting": 1, "vectorize_particles": True}
    torch.manual_seed(1)
    mine = ImportanceWeightedELBO(alpha=alpha, **options).loss(toy.model, toy.guide)
    torch.manual_seed(1)
    theirs = RenyiELBO(alpha=alpha, **options).loss(toy.model, toy.guide)
    assert mine.item() == pytest.approx(theirs, rel=1e-12)


def test_one_particle_is_the_ordinary_bound() -> None:
    toy = Toy(random_rows)
    torch.manual_seed(1)
    mine = ImportanceWeightedELBO(1, max_plate_nesting=1).loss(toy.model, toy.guide)
    torch.manual_seed(1)
    theirs = Trace_ELBO(max_plate_nesting=1).loss(toy.model, toy.guide)
    assert mine.item() == pytest.approx(theirs, rel=1e-12)


@loops
@particles
def test_log_weights_have_a_row_for_each_particle(num_particles: int, vectorized: bool) -> None:
    toy = Toy(given_rows)
    elbo = ImportanceWeightedELBO(num_particles, vectorize_particles=vectorized)
    log_w = elbo.log_weights(toy.model, toy.guide)
    assert log_w.shape == (num_particles, ROWS)
    if vectorized:  # a guess of the plate nesting ran the guide once before
        toy.drawn = toy.drawn[-1:]
    torch.testing.assert_close(log_w, toy.log_weights())


@loops
@particles
def test_log_weights_without_a_plate_have_one_dimension(
    num_particles: int, vectorized: bool
) -> None:
    drawn = []

    def model() -> None:
        z = pyro.sample("z", dist.Normal(torch.zeros(3), 1.0).to_event(1))
        pyro.sample("y", dist.Normal(z.sum(-1), 1.0), obs=torch.tensor(0.5))

    def guide() -> None:
        drawn.append(pyro.sample("z", dist.Normal(torch.ones(3), 2.0).to_event(1)))

    elbo = ImportanceWeightedELBO(
        num_particles, max_plate_nesting=0, vectorize_particles=vectorized
    )
    log_w = elbo.log_weights(model, guide)
    assert log_w.shape == (num_particles,)
    z = torch.cat([draw.reshape(-1, 3) for draw in drawn])
    one = torch.tensor(1.0)
    log_p = normal(z, 0.0, one).sum(-1) + normal(z.sum(-1), 0.5, one)
    torch.testing.assert_close(log_w, log_p - normal(z, 1.0, 2.0 * one).sum(-1))


def test_log_weights_keep_every_common_plate() -> None:
    def model() -> None:
        with pyro.plate("groups", 3, dim=-2), pyro.plate("data", 5, dim=-1):
            z = pyro.sample("z", dist.Normal(0.0, 1.0))
            pyro.sample("y", dist.Normal(z, 1.0), obs=torch.zeros(3, 5))

    elbo = ImportanceWeightedELBO(7, max_plate_nesting=2)
    assert elbo.log_weights(model, poutine.block(model, hide=["y"])).shape == (7, 3, 5)


@loops
def test_site_outside_the_plate_gives_weights_of_the_whole_batch(vectorized: bool) -> None:
    toy = Toy(whole)
    drawn = []

    def model() -> None:
        pyro.sample("shared", dist.Normal(0.0, 1.0))
        toy.model()

    def guide() -> None:
        drawn.append(pyro.sample("shared", dist.Normal(1.0, 0.5)))
        toy.guide()

    elbo = ImportanceWeightedELBO(4, max_plate_nesting=1, vectorize_particles=vectorized)
    log_w = elbo.log_weights(model, guide)
    assert log_w.shape == (4,)
    shared = torch.cat([draw.reshape(-1) for draw in drawn])
    one = torch.tensor(1.0)
    ratio = normal(shared, 0.0, one) - normal(shared, 1.0, 0.5 * one)
    expected = ratio + toy.log_weights().sum(-1)
    torch.testing.assert_close(log_w, expected)
    drawn.clear()
    toy.drawn.clear()
    loss = elbo.loss(model, guide)
    shared = torch.cat([draw.reshape(-1) for draw in drawn])
    ratio = normal(shared, 0.0, one) - normal(shared, 1.0, 0.5 * one)
    batch = torch.logsumexp(ratio + toy.log_weights().sum(-1), 0) - math.log(4)
    torch.testing.assert_close(loss, -batch)


def test_subsampled_plate_that_not_all_sites_share_is_refused_by_name() -> None:
    toy = Toy(random_rows)

    def model() -> None:
        pyro.sample("shared", dist.Normal(0.0, 1.0))
        toy.model()

    elbo = ImportanceWeightedELBO(4, max_plate_nesting=1)
    with pytest.raises(ValueError, match="plate 'data' is subsampled but not all sites"):
        elbo.loss(model, poutine.block(model, hide=["y"]))


@plates
def test_scale_of_the_user_stays_inside_the_logarithm(plate: Callable[[], Any], rows: int) -> None:
    toy = Toy(plate)
    elbo = ImportanceWeightedELBO(8, max_plate_nesting=1)
    scaled = poutine.scale(toy.model, 0.3), poutine.scale(toy.guide, 0.3)
    loss = elbo.differentiable_loss(*scaled)
    same_loss_and_gradients(toy, loss, -(FULL / rows) * bound(0.3 * toy.log_weights()))


def test_masked_rows_have_weight_one() -> None:
    toy = Toy(whole)
    mask = torch.arange(FULL) % 2 == 0
    elbo = ImportanceWeightedELBO(8, max_plate_nesting=1)
    loss = elbo.loss(poutine.mask(toy.model, mask), poutine.mask(toy.guide, mask))
    torch.testing.assert_close(loss, -bound(toy.log_weights()[:, mask]))


def test_guide_site_that_cannot_be_reparametrised_is_named() -> None:
    def model() -> None:
        with pyro.plate("data", 3):
            pyro.sample("kind", dist.Bernoulli(torch.full((3,), 0.5)))

    elbo = ImportanceWeightedELBO(2, max_plate_nesting=1)
    with pytest.raises(ValueError, match=r"'kind' of the guide.*Bernoulli"):
        elbo.differentiable_loss(model, model)
    assert elbo.log_weights(model, model).shape == (2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_particles": 0}, "num_particles must be an integer of at least 1, got 0"),
        ({"alpha": 1.0}, "alpha=1 is the ordinary bound: use Trace_ELBO"),
        ({"gradient": "landing"}, r"gradient must be one of \['iwae',.*\], got 'landing'"),
    ],
    ids=["particles", "alpha", "gradient"],
)
def test_option_that_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImportanceWeightedELBO(**options)
