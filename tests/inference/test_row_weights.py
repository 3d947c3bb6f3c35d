"""Rows with weights: their losses under every bound, ratios alone, copies held out together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import zoo
from pyro.infer import Trace_ELBO
from torch import Tensor
from training_runs import QUICK, loss_and_gradient, same, weights

from pyro_gcm import GCM, fit, fit_members
from pyro_gcm.inference import ImportanceWeightedELBO
from pyro_gcm.inference.scored import Scored
from pyro_gcm.inference.training_data import DataInMemory
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.prediction.base_samples import driven_draws
from pyro_gcm.training import TrainingOptions

#: A kind of the zoo and options of `fit`, for every objective, bound and way to draw or sum sites.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "prior guide": ("plain", {}),
    "amortised guide": ("laplace prior", {"elbo": "elbo"}),
    "dreg": ("posterior guide", {"elbo": "dreg"}),
    "mean field": ("full posterior guide", {"elbo": "mean_field"}),
    "alpha": ("plain", {"elbo": ImportanceWeightedELBO(4, 0.5, max_plate_nesting=1)}),
    "renyi": ("laplace prior", {"elbo": "renyi"}),
    "alternatives, p0": ("conditional p0", {}),
    "splines": ("splines and logistic costs", {}),
    "continuous": ("continuous", {}),
    "quantile": ("quantile", {}),
    "categorical": ("categorical prior", {}),
    "members": ("members", {"objective": "members"}),
    "members, evidence": ("members", {"objective": "conditional"}),
    "joint": ("joint", {"objective": "joint"}),
    "joint, mean field": ("joint", {"objective": "joint", "elbo": "mean_field"}),
    "implicit": ("implicit", {}),
    "implicit, one kernel": ("implicit, one kernel", {}),
    "implicit, joint": ("implicit, joint", {"objective": "joint", "elbo": "elbo"}),
    "implicit, paper": ("implicit, paper", {"objective": "paper"}),
    "implicit, categorical": ("implicit, categorical", {}),
}


class DrivenStory(Scored):
    """Draws the sites of a story from a noise."""

    def __init__(self, noise: Any, *args: Any) -> None:
        super().__init__(*args)
        self.noise = noise

    def draw(self, name: str, q: Any, independent: bool = False) -> Tensor:
        own = q.batch_shape if len(q.batch_shape) > 1 else ()  # it depends on other draws
        return self.noise.draw(q, tuple(torch.broadcast_shapes(own, self.shape)))


class OfRows:
    """The same draws for a row wherever it stands."""

    def __init__(self, base: Tensor, rows: Tensor) -> None:
        self.base, self.rows, self.used = base, rows, 0

    def draw(self, q: Any, shape: tuple[int, ...]) -> Tensor:
        first, self.used = self.used, self.used + q.event_shape.numel()
        return driven_draws(q, self.base[: shape[0], self.rows, first : self.used], shape[-1])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("float64")
def test_weights_are_repetitions(case: str) -> None:
    kind, training = CASES[case]
    model, data = zoo.build(kind), zoo.rows_of(kind, 6, seed=3)
    model.eval().learn_units(*data)
    count = torch.arange(6) % 3 + 1
    pair = model.training_pair(training.get("objective", "conditional"))
    bound = pair.bound(training.get("elbo"), 4)
    base = torch.randn(4, 6, 12, generator=torch.Generator().manual_seed(1))
    once, often = torch.arange(6), torch.arange(6).repeat_interleave(count)

    def loss(rows: Tensor, row_weights: Tensor | None) -> Tensor:
        columns, noise = [column[rows] for column in data], OfRows(base, rows)
        losses = DrivenStory(noise, model, pair.plan, bound).read(*columns).row_losses(1)
        return losses.sum() if row_weights is None else (row_weights * losses).sum()

    value, gradient = loss_and_gradient(model, loss(once, count.double()))
    wanted, of_repeated = loss_and_gradient(model, loss(often, None))
    assert torch.allclose(value, wanted, rtol=1e-12)
    assert (gradient - of_repeated).norm() < 1e-10 * of_repeated.norm()
    # ... which is not the gradient without weights
    unweighted = loss_and_gradient(model, loss(once, None))[1]
    assert (unweighted - gradient).norm() > 0.01 * gradient.norm()


def test_rows_of_weight_0_are_left_out_and_equal_weights_change_nothing(toy: zoo.Rows) -> None:
    x, r, y = toy
    kept = torch.arange(200) % 3 > 0
    models = [GCM(3, 2) for _ in range(4)]
    junk = torch.where(kept[:, None], x, 1e6)
    fit(models[0], x[kept], r[kept], y[kept], validation=0.2, **QUICK)
    fit(models[1], junk, r, y, sample_weight=kept, validation=0.2, **QUICK)
    assert same(weights(models[0]), weights(models[1]))
    half = kept.double().numpy() * 0.5
    fit(models[2], junk, r, y, sample_weight=half[:, None], validation=0.2, **QUICK)
    assert same(weights(models[0]), weights(models[2]))
    rising = torch.linspace(0.1, 2.0, 133)
    fit(models[3], x[kept], r[kept], y[kept], sample_weight=rising, validation=0.2, **QUICK)
    assert not same(weights(models[0]), weights(models[3]))


@pytest.mark.filterwarnings("ignore:.* rows are copies of others")
def test_copies_of_a_row_are_held_out_together(toy: zoo.Rows) -> None:
    columns = [column[:40] for column in toy]
    count = 1 + torch.arange(40) % 4
    often = [column.repeat_interleave(count, 0) for column in columns]
    settings = MemberSettings(epochs=1, members=4, width=8)
    small: Any = {"settings": settings, "early_stopping": True, "progress": False}
    fitted = fit_members(*often, **small)
    assert fitted.crossed is not None
    assert all(len(fold.unique()) == 1 for fold in fitted.crossed.fold.split(count.tolist()))
    labels = torch.arange(len(often[2])) // 10
    grouped = fit_members(*often, groups=labels, **small)
    assert grouped.crossed is not None
    assert all(len(fold.unique()) == 1 for fold in grouped.crossed.fold.split(10))
    rows = DataInMemory(GCM(3, 2), often, None, None, TrainingOptions(validation=0.2))
    copies = torch.arange(40).repeat_interleave(count)
    assert not set(copies[rows.learn].tolist()) & set(copies[rows.held_out].tolist())
    assert len(rows.learn) + len(rows.held_out) == len(copies)
    assert 0 < len(rows.held_out) <= 0.2 * len(copies)


def test_losses_are_weighted_means(toy: zoo.Rows) -> None:
    """With a learning rate of almost 0 all rows are seen by one model, whose terms are exact."""
    x, r, y = toy
    model = GCM(3, 2, prior="categorical")
    weight = torch.linspace(0.5, 2.0, 200)
    options = QUICK | {"epochs": 1, "learning_rate": 1e-12}
    beside = x[:50], r[:50], y[:50]
    result = fit(model, *toy, sample_weight=weight, validation=beside, **options)
    p = model.predict(x, r)
    losses = -torch.where(y == 1, p, 1.0 - p).log()
    row = result.rows[0]
    assert row["loss"] == pytest.approx(float((weight * losses).sum() / weight.sum()), rel=1e-4)
    assert row["validation_loss"] == pytest.approx(float(losses[:50].mean()), rel=1e-4)
    again = GCM(3, 2, prior="categorical")
    result = fit(again, *toy, sample_weight=weight, validation=0.25, **options)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))[:50]
    p = again.predict(x[order], r[order])
    losses, own = -torch.where(y[order] == 1, p, 1.0 - p).log(), weight[order]
    wanted = float((own * losses).sum() / own.sum())
    assert result.rows[0]["validation_loss"] == pytest.approx(wanted, rel=1e-4)


def test_weights_need_a_bound_with_a_name(toy: zoo.Rows) -> None:
    own = Trace_ELBO(max_plate_nesting=1)
    with pytest.raises(ValueError, match="sample_weight needs one of the names of elbo, got"):
        fit(GCM(3, 2), *toy, sample_weight=torch.linspace(0.0, 2.0, 200), elbo=own, **QUICK)
    fit(GCM(3, 2), *toy, sample_weight=torch.ones(200), elbo=own, **QUICK)


def test_bad_weights_are_refused_first(toy: zoo.Rows) -> None:
    before = weights(model := GCM(3, 2))
    for weight, message in (
        (torch.ones(199), "200.*199"),
        (-torch.ones(200), "at least 0, got -1 in row 0"),
        (torch.zeros(200), "above 0"),
        (torch.full((200,), float("inf")), "finite"),
        (torch.full((200,), float("nan")), "finite"),
        (torch.ones(200, 2), "shape"),
    ):
        for train, first in ((fit, (model,)), (fit_members, ())):
            with pytest.raises(ValueError, match=f"sample_weight.*{message}"):
                train(*first, *toy, sample_weight=weight, progress=False)
    assert same(before, weights(model))
