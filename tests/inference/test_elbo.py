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
from torch import Tensor

from pyro_gcm.inference import ImportanceWeightedELBO

FULL, ROWS, DIM, N = 60, 6, 2, 5
DTYPE = torch.float64

counts = pytest.mark.parametrize("num_particles", [1, 2, N], ids=lambda n: f"N={n}")


def normal(value: Tensor, loc: Any, scale: Any) -> Tensor:
    """log N(value; loc, scale)."""
    scale = torch.as_tensor(scale, dtype=DTYPE)
    return -0.5 * ((value - loc) / scale) ** 2 - scale.log() - 0.5 * math.log(2.0 * math.pi)


def whole() -> Any:
    return pyro.plate("data", FULL)


def random_rows() -> Any:
    return pyro.plate("data", FULL, subsample_size=ROWS)


def given_rows() -> Any:
    return pyro.plate("data", FULL, subsample=torch.arange(0, FULL, FULL // ROWS))


class Toy:
    """z ~ N(a x, I), u ~ N(z1 z2, 1), y ~ N(sum z + u, s^2), in a mini-batch or for all rows.

    Guide: z ~ N(b x + y, t^2) and u ~ N(d y, 0.7^2), independent of z. Keeps its draws.
    """

    def __init__(self, plate: Callable[[], Any] = random_rows) -> None:
        g = torch.Generator().manual_seed(3)
        self.rows = plate
        self.x = torch.randn(FULL, DIM, generator=g, dtype=DTYPE)
        self.y = torch.randn(FULL, generator=g, dtype=DTYPE)
        self.theta = [torch.tensor(v, dtype=DTYPE, requires_grad=True) for v in (0.7, -0.2)]
        self.phi = [torch.tensor(v, dtype=DTYPE, requires_grad=True) for v in (0.4, -0.3, 0.2)]
        self.drawn: list[tuple[Tensor, Tensor, Tensor]] = []

    def model(self) -> None:
        a, log_s = self.theta
        with self.rows() as index:
            z = pyro.sample("z", dist.Normal(a * self.x[index], 1.0).to_event(1))
            u = pyro.sample("u", dist.Normal(z.prod(-1), 1.0))
            pyro.sample("y", dist.Normal(z.sum(-1) + u, log_s.exp()), obs=self.y[index])

    def guide(self) -> None:
        with self.rows() as index:
            (z_loc, t), (u_loc, s) = self.q(index, self.phi)
            z = pyro.sample("z", dist.Normal(z_loc, t).to_event(1))
            self.drawn.append((index, z, pyro.sample("u", dist.Normal(u_loc, s))))

    def q(self, index: Tensor, phi: list[Tensor]) -> Any:
        b, log_t, d = phi
        x, y = self.x[index], self.y[index]
        return (b * x + y[:, None], log_t.exp()), (d * y, torch.tensor(0.7, dtype=DTYPE))

    def draws(self) -> tuple[Tensor, Tensor, Tensor]:
        """The rows [B], and the draws z [N, B, D] and u [N, B] of the guide."""
        index = self.drawn[0][0]
        # A column of weights belongs to one row: every particle has the rows of the first.
        assert all(torch.equal(rows, index) for rows, _, _ in self.drawn)
        z = torch.cat([z.detach().reshape(-1, len(index), DIM) for _, z, _ in self.drawn])
        return index, z, torch.cat([u.detach().reshape(-1, len(index)) for _, _, u in self.drawn])

    def log_w(self, index: Tensor, z: Tensor, u: Tensor, q: Any) -> Tensor:
        """log w [N, B] of draws, given the parameters of the guide."""
        a, log_s = self.theta
        return (
            normal(z, a * self.x[index], 1.0).sum(-1)
            + normal(u, z.prod(-1), 1.0)
            + normal(self.y[index], z.sum(-1) + u, log_s.exp())
            - normal(z, *q[0]).sum(-1)
            - normal(u, *q[1])
        )

    def log_weights(self) -> Tensor:
        """log w [N, B] of the guide's draws, each a function of the parameters once more."""
        index, *draws = self.draws()
        q = self.q(index, self.phi)
        again = [
            loc + scale * ((value - loc) / scale).detach()
            for value, (loc, scale) in zip(draws, q, strict=True)
        ]
        return self.log_w(index, *again, q)


orders = pytest.mark.parametrize("alpha", [0.0, 0.5, -1.0, 2.0], ids=lambda a: f"alpha={a}")
plates = pytest.mark.parametrize(
    ("plate", "rows"),
    [(whole, FULL), (random_rows, ROWS), (given_rows, ROWS)],
    ids=["whole", "subsample_size", "subsample"],
)


def bound(log_w: Tensor, alpha: float = 0.0) -> Tensor:
    """sum_i 1/(1 - alpha) log 1/N sum_n w_in^(1 - alpha), without any trick."""
    return (log_w.exp() ** (1.0 - alpha)).mean(0).log().sum() / (1.0 - alpha)


def same_loss_and_gradients(toy: Toy, loss: Tensor, expected: Tensor) -> None:
    parameters = [*toy.theta, *toy.phi]
    # A mean over rows, so that 1e-6 means the same for every plate.
    torch.testing.assert_close(loss / FULL, expected / FULL, rtol=0, atol=1e-6)
    gradient = torch.autograd.grad(loss, parameters, retain_graph=True)
    wanted = torch.autograd.grad(expected, parameters)
    for mine, theirs in zip(gradient, wanted, strict=True):
        assert theirs.abs() > 1e-3
        torch.testing.assert_close(mine / FULL, theirs / FULL, rtol=0, atol=1e-6)


@plates
@counts
@orders
def test_loss_and_gradients_equal_the_hand_written_bound_per_datum(
    plate: Callable[[], Any], rows: int, num_particles: int, alpha: float
) -> None:
    toy = Toy(plate)
    elbo = ImportanceWeightedELBO(num_particles, alpha, max_plate_nesting=1)
    loss = elbo.differentiable_loss(toy.model, toy.guide)
    log_w = toy.log_weights()
    assert log_w.shape == (num_particles, rows)
    same_loss_and_gradients(toy, loss, -(FULL / rows) * bound(log_w, alpha))


def test_subsampled_plate_that_not_all_sites_share_is_refused_by_name() -> None:
    toy = Toy(random_rows)

    def model() -> None:
        pyro.sample("shared", dist.Normal(0.0, 1.0))
        toy.model()

    elbo = ImportanceWeightedELBO(4, max_plate_nesting=1)
    with pytest.raises(ValueError, match="plate 'data' is subsampled but not all sites"):
        elbo.loss(model, poutine.block(model, hide=["y"]))


@plates
def test_a_scale_around_both_sides_weighs_the_rows(plate: Callable[[], Any], rows: int) -> None:
    toy = Toy(plate)
    elbo = ImportanceWeightedELBO(8, max_plate_nesting=1)
    scaled = poutine.scale(toy.model, 0.3), poutine.scale(toy.guide, 0.3)
    loss = elbo.differentiable_loss(*scaled)
    same_loss_and_gradients(toy, loss, -0.3 * (FULL / rows) * bound(toy.log_weights()))


def test_masked_rows_have_weight_one() -> None:
    toy = Toy(whole)
    mask = torch.arange(FULL) % 2 == 0
    elbo = ImportanceWeightedELBO(8, max_plate_nesting=1)
    loss = elbo.loss(poutine.mask(toy.model, mask), poutine.mask(toy.guide, mask))
    torch.testing.assert_close(loss, -bound(toy.log_weights()[:, mask]))


@counts
def test_a_guide_without_sites_gives_the_likelihood(num_particles: int) -> None:
    y = Toy().y

    def model() -> None:
        with whole():
            pyro.sample("y", dist.Normal(0.3, 2.0), obs=y)

    bound = ImportanceWeightedELBO(num_particles=num_particles, max_plate_nesting=1)
    assert bound.loss(model, lambda: None) == pytest.approx(-float(normal(y, 0.3, 2.0).sum()))


def test_guide_site_that_cannot_be_reparametrised_is_named() -> None:
    def model() -> None:
        with pyro.plate("data", 3):
            pyro.sample("kind", dist.Bernoulli(torch.full((3,), 0.5)))

    elbo = ImportanceWeightedELBO(2, max_plate_nesting=1)
    with pytest.raises(ValueError, match=r"'kind' of the guide.*Bernoulli"):
        elbo.differentiable_loss(model, model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_particles": 0}, "num_particles must be an integer of at least 1, got 0"),
        ({"alpha": 1.0}, "alpha=1 is the ordinary bound: use Trace_ELBO"),
        ({"alpha": 0.5, "gradient": "dreg"}, "alpha must be 0 with gradient='dreg', got alpha"),
        ({"gradient": "landing"}, r"gradient must be one of \['iwae',.*\], got 'landing'"),
    ],
)
def test_option_that_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImportanceWeightedELBO(**options)
