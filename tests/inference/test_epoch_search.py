"""How many epochs a model is trained for: chosen by the prediction that people get."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import zoo
from pyro.infer import Trace_ELBO
from torch import Tensor, nn
from training_runs import same, stop_at, weights

from pyro_gcm import GCM, IGCM, baselines, fit, fit_members
from pyro_gcm.inference import epoch_search
from pyro_gcm.inference.epoch_search import best_epoch
from pyro_gcm.models import MemberGCM
from pyro_gcm.responses import Ordinal
from pyro_gcm.training import Diverged, FitSettings

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


class Mode(nn.Module):
    """Notes in which mode it is called, beside a part of a model."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.modes = part, list[tuple[bool, bool]]()

    def forward(self, *args: Any) -> Any:
        self.modes.append((torch.is_grad_enabled(), self.training))
        return self.part(*args)


@pytest.mark.parametrize("elbo", [None, Trace_ELBO(2)], ids=["read", "Pyro"])
@pytest.mark.parametrize("make", [GCM, IGCM, baselines.MLP], ids=["GCM", "IGCM", "baseline"])
def test_every_model_is_validated_in_evaluation_mode(make: Any, elbo: Any) -> None:
    model = make(3, 2)
    name = "cost_net" if hasattr(model, "cost_net") else list(dict(model.named_children()))[-1]
    spy = Mode(getattr(model, name))
    setattr(model, name, spy)
    train: Any = baselines.fit if make is baselines.MLP else fit
    own: Any = {"elbo": elbo, "num_particles": 2}
    options = {} if make is baselines.MLP else own
    train(model, *rows(60), epochs=2, validation=0.3, **options, **QUICK)
    assert {training for gradients, training in spy.modes if gradients} >= {True}
    if make is not baselines.MLP:  # whose loss may need gradients
        assert {training for gradients, training in spy.modes if not gradients} == {False}
    else:
        assert False in {training for _, training in spy.modes}
    assert model.training


@pytest.mark.long
def test_fit_gives_members_what_fit_members_gives() -> None:
    columns = rows(300)
    fitted, model = fit_members(*columns, seed=SEED, **QUICK), MemberGCM(3, 2, seed=SEED)
    result = fit(model, *columns, seed=SEED, **QUICK)
    assert result.crossed is not None
    assert result.best_epoch == fitted.result.best_epoch
    at = columns[:2]
    assert torch.equal(model.predict(*at), fitted.model.predict(*at))
    # Trained again it goes on, with the default number of epochs, since it has seen all rows.
    again = fit(model, *columns, seed=SEED, **QUICK)
    assert again.crossed is None
    assert len(again.rows) == model.training_defaults(300).epochs


def test_a_search_leaves_no_trace_and_does_not_begin_where_epochs_are_given() -> None:
    columns, model = rows(60, torch.float64), GCM(3, 2).double()
    options: Any = {**QUICK, "num_particles": 2, "seed": SEED, "learning_rate": 0.1}
    searched = fit(model, *columns, searches=2, epochs=60, **options)
    assert len(searched.searches) == 2
    assert len(searched.rows) == best_epoch(*searched.searches)
    like = GCM(3, 2).double()
    fit(like, *columns, searches=searched, **options)
    assert same(weights(model), weights(like))
    members = MemberGCM(3, 2).double()
    assert fit(members, *columns, epochs=1, **QUICK).crossed is None
    for more in ({"validation": 0.2}, {"validation": [c[:9] for c in columns]}):
        for asked in (1, searched):
            with pytest.raises(ValueError, match=r"searches must be .* with data"):
                fit(members, *columns, searches=asked, **more, **QUICK)
    with pytest.raises(ValueError, match="searches must be 0 with fewer than 4 rows, got 3"):
        fit(members, *(column[:3] for column in columns), searches=1.0, **QUICK)


def test_an_interrupted_search_leaves_the_weights_and_a_resumed_training_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, path = rows(60), tmp_path / "run"
    monkeypatch.setattr(epoch_search, "MOST", 1)  # epochs of a search, in those of a training

    def run(**more: Any) -> tuple[GCM, Any]:
        model = MemberGCM(3, 2, members=2, hidden=4, seed=SEED)
        return model, fit(model, *columns, searches=3, seed=SEED, **QUICK, **more)

    whole, wanted = run()
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=path, callback=stop_at(2))
    resumed, result = run(checkpoint=path)
    assert (len(wanted.searches), len(result.searches)) == (3, 0)
    assert same(weights(whole), weights(resumed))
    model = MemberGCM(3, 2, members=2, hidden=4, seed=SEED)
    before = weights(model)

    def interrupted(*args: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "load_state_dict", interrupted)  # after the first search
    with pytest.raises(KeyboardInterrupt):
        fit(model, *columns, searches=3, seed=SEED, **QUICK)
    assert same(weights(model), before)
    assert not model.is_trained


class Spoiling(torch.optim.SGD):
    """Leaves weights that are no numbers."""

    def step(self, *args: Any) -> None:
        self.param_groups[0]["params"][0].data.fill_(float("nan"))


def test_what_cannot_be_done_is_told_before_a_search_and_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = rows(60)
    with pytest.raises(KeyboardInterrupt):
        fit(GCM(3, 2), *columns, checkpoint=tmp_path / "run", callback=stop_at(1), **QUICK)
    spoilt = GCM(3, 2)
    model, places = GCM(3, 2), [tmp_path / "run", tmp_path / "run" / "none"]
    with pytest.raises(Diverged, match="in a search for the number of epochs"):
        fit(spoilt, *columns, searches=1, settings=FitSettings(optimizer=Spoiling), **QUICK)
    assert not spoilt.is_trained
    monkeypatch.setattr(epoch_search, "_searched", None)
    for place in places:
        with pytest.raises((ValueError, OSError), match="run"):
            fit(model, *columns, searches=2, checkpoint=place, **QUICK)


def test_a_schedule_that_is_given_is_used() -> None:
    columns, seen = rows(60), []

    def schedule(optimizer: Any, steps: int) -> None:
        seen.append(steps)

    own: Any = {"settings": FitSettings(schedule=schedule), **QUICK}
    result = fit(MemberGCM(3, 2, hidden=4), *columns, **own)
    assert (result.crossed, len(seen)) == (None, 1)
    result = fit(GCM(3, 2, hidden=4), *columns, searches=1, epochs=3, **own)
    assert (len(result.searches), len(seen)) == (1, 3)


def test_the_best_epoch_is_that_of_all_searches() -> None:
    def search(*losses: float) -> Any:
        return SimpleNamespace(rows=[{"validation_loss": loss} for loss in losses])

    one, other = search(3.0, 1.0, 1.0, 1.0, 8.0), search(9.0, 9.0, 9.0, 2.0, 1.0)
    assert best_epoch(one) == 3
    assert best_epoch(other) == 5
    assert best_epoch(one, one) == 3
    assert best_epoch(one, other) == 1  # which cannot be told from 5
    assert best_epoch(search(2.0, 1.0)) == 2
    assert best_epoch(search(3.0, 1.0, 1.0, 1.0, 9.0), search(3.0, 1.0, 1.0)) == 3


def test_few_rows_are_trained_on_for_few_epochs_and_left_out_by_no_member() -> None:
    model = MemberGCM(3, 2)
    with pytest.warns(UserWarning, match=r"members need 20 rows or more to learn from, got 12: "):
        result = fit(model, *rows(12), **QUICK)
    assert (len(result.rows), result.crossed) == (2, None)
    counts = {n: model.training_defaults(n).left_out for n in (19, 20, 20_000, 20_001)}
    assert counts == {19: 0, 20: 2, 20_000: 2, 20_001: 0}
