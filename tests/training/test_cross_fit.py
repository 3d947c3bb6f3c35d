"""Members leave out rows of their own: which, what that changes, and what they say of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.estimators.plans import fit_members
from pyro_gcm.estimators.training import Trained
from pyro_gcm.inference.epochs import cross_fit, folds_of
from pyro_gcm.models import MemberGCM
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.nets import MemberEncoder

QUICK: Any = {"progress": False, "device": "cpu", "seed": 3}


def rows(count: int = 90) -> list[Tensor]:
    return [*zoo.rows(count=count).map(Tensor.float)[:3]]


def predict(model: Any, x: Tensor, r: Tensor) -> Tensor:
    return model.predict(x, r)


def test_folds_are_of_one_size_and_have_outcomes_of_every_size() -> None:
    y = torch.randn(403, generator=torch.Generator().manual_seed(0))
    fold = folds_of(y, 8, torch.Generator().manual_seed(1))
    assert sorted(fold.bincount().tolist()) == [50] * 5 + [51] * 3
    few = (torch.arange(80) < 8).float()
    assert folds_of(few, 8, torch.Generator().manual_seed(1))[:8].unique().tolist() == [*range(8)]
    group = torch.arange(403) // 7
    fold = folds_of(y, 8, torch.Generator().manual_seed(1), group)
    for label in group.unique():
        assert len(fold[group == label].unique()) == 1
    assert fold.bincount().max() - fold.bincount().min() <= 7


def test_a_member_does_not_learn_from_rows_that_it_leaves_out() -> None:
    columns, found = rows(), {}
    for flip in (False, True):
        model = MemberGCM(3, 2, members=4, hidden=4, seed=3)
        # Weights that members share are fitted to all rows.
        for part in (model.encoder.first, *model.encoder.layers):
            part.weight.requires_grad_(False)
        fold = folds_of(columns[2], 4, torch.Generator().manual_seed(3))
        # Other outcomes of two rows of a fold, so that all folds stay as they are.
        y = columns[2].clone()
        mine = (fold == 1).nonzero()[:, 0]
        pair = [int(mine[y[mine] == value][0]) for value in (0.0, 1.0)]
        y[pair] = y[pair].flip(0) if flip else y[pair]
        options: Any = {"left_out": 1, "groups": fold, "clip_norm": None, "epochs": 2}
        _, (leaves_out, fold, state) = cross_fit(model, *columns[:2], y, **options, **QUICK)
        ((left,),) = [leaves_out[:, fold[pair[0]]].nonzero().tolist()]
        found[flip] = state["encoder.first.bias"], left
    (before, left), (after, _) = found[False], found[True]
    assert torch.equal(before[left], after[left])
    assert not torch.equal(before, after)


def test_the_best_epoch_is_that_of_predictions_out_of_fold_and_all_rows_follow() -> None:
    columns, model = rows(300), MemberGCM(3, 2, hidden=8, seed=1)
    result, crossed = cross_fit(model, *columns, left_out=2, **QUICK)
    history = result.history
    assert history["epoch"].tolist() == [*range(1, len(history) + 1)]
    assert history["step"].diff().dropna().nunique() == 1
    validated = history["validation_loss"].dropna()
    assert result.best_epoch == 1 + int(validated.argmin())
    assert 1 <= len(history) - len(validated) <= 1 + result.best_epoch
    fitted = Trained(model, result, crossed)
    p = fitted.out_of_fold(predict, *columns[:2]).double()
    loss = -torch.where(columns[2] > 0, p, 1 - p).log().mean()
    assert float(loss) == pytest.approx(validated.min(), rel=1e-5)
    assert (model.predict(*columns[:2]) != p).any()
    first = fitted.out_of_fold(predict, columns[0][:9], columns[1][:9])
    assert torch.equal(first.double(), p[:9])
    with pytest.raises(ValueError, match="columns must be of the 300 rows trained on, got 600"):
        fitted.out_of_fold(torch.add, columns[2].repeat(2))


def test_the_last_epochs_go_on_with_the_moments_of_the_optimiser() -> None:
    made: list[torch.optim.Optimizer] = []

    def optimizer(parameters: Any, **options: Any) -> torch.optim.Optimizer:
        made.append(torch.optim.Adam(parameters, **options))
        return made[-1]

    model = MemberGCM(3, 2, members=4, hidden=4)
    result, _ = cross_fit(
        model, *rows(40), left_out=1, epochs=2, batch_size=16, optimizer=optimizer, **QUICK
    )
    (state, *_) = made[0].state.values()
    assert len(made) == 1
    assert int(state["step"]) == result.rows[-1]["step"] == 9


def test_weights_and_groups_are_those_of_the_rows_that_count() -> None:
    columns, group = rows(200), np.array(list("abcdefghij"))[np.arange(200) % 10]
    weight = torch.ones(200)
    weight[::7] = 0.0
    options: Any = {"sample_weight": weight, "groups": group, "left_out": 2, "epochs": 1}
    _, (_, fold, _) = cross_fit(MemberGCM(3, 2, hidden=4), *columns, **options, **QUICK)
    kept = group[weight > 0]
    assert len(fold) == len(kept)
    assert all(len(fold[kept == label].unique()) == 1 for label in "abcdefghij")


def test_members_do_not_learn_noise_for_each_other_where_there_are_many_columns() -> None:
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(120, 210, generator=generator) < 0.1).float()
    r, y = torch.rand(120, 1, generator=generator), torch.arange(120) % 2.0
    fitted = fit_members(x, r, y, progress=False)
    assert fitted.crossed is not None
    p = fitted.out_of_fold(predict, x, r)
    assert -torch.where(y > 0, p, 1 - p).log().mean() > 0.68
    assert fitted.settings.scaling == "input"
    assert MemberSettings.for_table(30_000, 210, 1).scaling == "output"


def test_rows_are_left_out_where_members_can() -> None:
    by_output = MemberGCM(3, 2, members=MemberEncoder(3, 4, scaling="output"))
    for model, options, message in (
        (by_output, {}, "left_out must be below the 4 members of a MemberGCM whose scaling is"),
        (GCM(3, 2), {}, "left_out must be below the 0 members"),
        (MemberGCM(3, 2), {"objective": "conditional"}, r"sample_weight must be \[n\]"),
        (MemberGCM(3, 2, members=2), {}, "left_out must be below the 2 members of .* 2"),
        (MemberGCM(3, 2), {"groups": [1, 2]}, r"groups must have a label for each of the 90 rows,"),
    ):
        with pytest.raises(ValueError, match=message):
            cross_fit(model, *rows(), left_out=2, **options, **QUICK)


def test_weights_of_members_are_those_of_their_losses() -> None:
    columns = rows(60)
    weight = torch.zeros(60, 2)
    weight[:30, 0], weight[30:, 1] = 1.0, 1.0
    options: Any = {"epochs": 1, "batch_size": 60, "learning_rate": 1e-12, "standardize": False}
    model = MemberGCM(3, 2, members=MemberEncoder(3, 2, 4, dropout=0.0))
    result = fit(model, *columns, sample_weight=weight, **options, **QUICK)
    model.eval()
    losses = -model.log_likelihood(
        *columns, sites={"z": torch.eye(2)[:, None].expand(-1, 60, -1)}
    )  # [member, row]
    wanted = (losses * weight.T).sum() / 60  # the mean weight is a half, of two members
    assert result.rows[0]["loss"] == pytest.approx(float(wanted), rel=1e-4)
    held_out = (losses * (1.0 - weight.T)).sum() / 60  # each row has one member that left it out
    assert result.rows[0]["validation_loss"] == pytest.approx(float(held_out), rel=1e-4)
