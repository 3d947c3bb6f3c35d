"""How many epochs a model is trained for: chosen by the prediction that people get."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import zoo
from pyro.infer import Trace_ELBO
from torch import Tensor
from training_runs import same, stop_at, weights

from pyro_gcm import GCM, IGCM, baselines, fit
from pyro_gcm.estimators.plans import members_plan
from pyro_gcm.inference.epochs import best_epoch, search_epochs
from pyro_gcm.models import MemberGCM
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.responses import Ordinal
from pyro_gcm.training import Diverged

SEED, QUICK = 3, {"progress": False, "device": "cpu"}


def rows(count: int, dtype: torch.dtype = torch.float32, response: str = "binary") -> list[Tensor]:
    return [column.to(dtype) for column in zoo.rows(response, count, seed=count)[:3]]


def scores(model: Any, response: str, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
    """Of the averaged prediction of members, [B]."""
    if response not in ("continuous", "quantile"):
        return -model.log_prob(x, r, y)
    unit = model.response.standardizer.scale
    error = (y - model.predict(x, r)) / unit
    if response == "continuous":
        return error.square()
    level = r[:, 0]
    pinball = level * error.clamp(min=0) + (1 - level) * (-error).clamp(min=0)
    return pinball - (level * (1 - level) / unit).log()  # of a density


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize(
    "response", ["binary", "ordinal", "distribution", "continuous", "quantile"]
)
def test_members_are_validated_by_their_averaged_prediction(response: str, weighted: bool) -> None:
    columns = rows(120, torch.float64, response)
    made: Any = Ordinal(levels=4) if response == "ordinal" else response
    model = MemberGCM(3, columns[1].shape[1], response=made, members=3, hidden=8)
    weight = torch.linspace(0.5, 2.0, 120).double() if weighted else None
    options: Any = {"epochs": 2, "validation": 0.3, "seed": SEED, "sample_weight": weight}
    result = fit(model.double(), *columns, **options, **QUICK)
    assert model.encoder.dropout.p > 0.0
    kept = torch.randperm(120, generator=torch.Generator().manual_seed(SEED))[:36]
    own = scores(model, response, *(column[kept] for column in columns))
    wanted = own.mean() if weight is None else (own * weight[kept]).sum() / weight[kept].sum()
    # The weights that were kept are those of the best epoch.
    assert result.history["validation_loss"].min() == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize("elbo", [None, Trace_ELBO(2)], ids=["read", "Pyro"])
@pytest.mark.parametrize("make", [GCM, IGCM, baselines.MLP], ids=["GCM", "IGCM", "baseline"])
def test_every_model_is_validated_in_evaluation_mode(make: Any, elbo: Any) -> None:
    model, modes = make(3, 2), list[tuple[bool, bool]]()
    part = model.cost_net if hasattr(model, "cost_net") else model.network.hidden[0]
    part.register_forward_hook(lambda *_: modes.append((torch.is_grad_enabled(), part.training)))
    own: Any = {"elbo": elbo, "num_particles": 2} if make is not baselines.MLP else {}
    train: Any = fit if own else baselines.fit
    train(model, *rows(60), epochs=2, validation=0.3, **own, **QUICK)
    assert {training for gradients, training in modes if gradients} >= {True}
    # The loss of a baseline may need gradients.
    assert False in {training for gradients, training in modes if not gradients or not own}
    assert not any(training for gradients, training in modes if not gradients)
    assert model.training


def test_a_search_leaves_no_trace() -> None:
    columns, model = rows(60, torch.float64), GCM(3, 2).double()
    options: Any = {**QUICK, "num_particles": 2, "seed": SEED, "learning_rate": 0.1}
    before = weights(model)
    epochs = search_epochs(model, *columns, epochs=60, **options)
    assert 1 <= epochs <= 60
    assert same(weights(model), before)
    assert not model.is_trained
    assert model.training_summary is None
    parts = {"validation": 0.15, "patience": 8, "epochs": 60, "schedule": "constant"}
    assert epochs == best_epoch(fit(GCM(3, 2).double(), *columns, **{**options, **parts}))
    with pytest.raises(ValueError, match=r"validation=0.15 leaves no rows in one of the parts"):
        search_epochs(model, *(column[:3] for column in columns), **QUICK)


class Spoiling(torch.optim.SGD):
    """Leaves weights that are no numbers."""

    def step(self, *args: Any) -> None:
        self.param_groups[0]["params"][0].data.fill_(float("nan"))


def test_a_search_that_fails_leaves_the_model_as_it_was() -> None:
    columns, model = rows(60), GCM(3, 2)
    before = weights(model)
    with pytest.raises(Diverged):
        search_epochs(model, *columns, optimizer=Spoiling, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        search_epochs(model, *columns, callback=stop_at(2), **QUICK)
    assert same(weights(model), before)
    assert not model.is_trained


def test_the_best_epoch_is_that_of_three_neighbours() -> None:
    def search(*losses: float) -> Any:
        return SimpleNamespace(rows=[{"validation_loss": loss} for loss in losses])

    assert best_epoch(search(3.0, 1.0, 1.0, 1.0, 8.0)) == 3
    assert best_epoch(search(9.0, 9.0, 9.0, 2.0, 1.0)) == 5
    assert best_epoch(search(2.0, 1.0)) == 2


def test_few_rows_are_trained_on_for_few_epochs() -> None:
    model = MemberGCM(3, 2)
    with pytest.warns(UserWarning, match=r"members need 20 rows or more to learn from, got 12: "):
        result = fit(model, *rows(12), **QUICK)
    assert len(result.rows) == 2
    fit(MemberGCM(3, 2), *rows(20), **QUICK)  # a warning would be an error
    cases: Any = (
        *((19, "auto", 0), (20, "auto", 2), (20_000, "auto", 2), (20_001, "auto", 0)),
        *((20_001, True, 2), (20, False, 0), (19, True, 0)),
    )
    for count, stops, left_out in cases:
        sizes: Any = count, 3, 2
        plan = members_plan(MemberSettings(), "binary", sizes, stops, searches=True)
        assert plan.left_out == left_out, (count, stops)
