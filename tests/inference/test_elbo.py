"""The importance-weighted bound: one weight per datum, the plate's scale outside the logarithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from elbo_toy import FULL, ROWS, Toy, counts, given_rows, random_rows, whole
from torch import Tensor

from pyro_gcm.inference import ImportanceWeightedELBO

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


def test_guide_site_that_cannot_be_reparametrised_is_named() -> None:
    def model() -> None:
        with pyro.plate("data", 3):
            pyro.sample("kind", dist.Bernoulli(torch.full((3,), 0.5)))

    elbo = ImportanceWeightedELBO(2, max_plate_nesting=1)
    with pytest.raises(ValueError, match=r"'kind' of the guide.*Bernoulli"):
        elbo.differentiable_loss(model, model)
    assert elbo.log_weights(model, model).shape == (2, 3)


def test_the_doubly_reparametrised_gradient_is_for_fit() -> None:
    toy, elbo = Toy(whole), ImportanceWeightedELBO(2, gradient="dreg", max_plate_nesting=1)
    with pytest.raises(ValueError, match=r"gradient='dreg' is for fit: use 'iwae'"):
        elbo.differentiable_loss(toy.model, toy.guide)
    assert elbo.loss(toy.model, toy.guide).isfinite()


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
