"""A story that a subclass changes: program, training, predictions and posteriors follow it."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
import zoo
from changed_stories import KINDS, OTHERS, cases, trained
from scipy.stats import ks_2samp
from torch import Tensor

from pyro_gcm import GCM, IGCM, load, save, to_arviz
from pyro_gcm.inference import ImportanceWeightedELBO
from pyro_gcm.inference.reading import Plan
from pyro_gcm.prediction.predicted import Predicted

pytestmark = pytest.mark.filterwarnings("ignore:.*effective sample size below 100")


def log_ratio_of_outcomes(model: Any, x: Tensor, r: Tensor) -> Tensor:
    """Pr(y = 1 | x, r) by importance weights of the programs in Pyro, or by enumeration, [B]."""
    pair = model.training_pair(model.objective)
    if model.shared_sites():
        effect = {"effect": model.shared_guide["effect_loc"].detach()}
        program = poutine.block(poutine.condition(pair.program, effect), hide=["effect"])
        pair = pair._replace(program=program, guide=poutine.block(pair.guide, hide=["effect"]))
    log_p = []
    for y in (torch.zeros(len(x)).double(), torch.ones(len(x)).double()):
        torch.manual_seed(7)  # the same draws for both outcomes
        if pair.enumerated:
            rows = [_enumerated(model, pair, x, r, y, row) for row in range(len(x))]
            log_p.append(torch.stack(rows))
            continue
        bound = ImportanceWeightedELBO(20_000, max_plate_nesting=1)
        log_p.append(-bound.row_losses(pair.program, pair.guide, x, r, y))
    return torch.sigmoid(log_p[1] - log_p[0])


def _enumerated(model: Any, pair: Any, x: Tensor, r: Tensor, y: Tensor, row: int) -> Tensor:
    one = x[row : row + 1], r[row : row + 1], y[row : row + 1]
    log_w = []
    for z in torch.eye(model.z_dim).double():
        given = poutine.condition(pair.program, {"z": z.expand(1, -1)})
        guide = poutine.block(pair.guide, hide=["z"])
        torch.manual_seed(7)
        bound = ImportanceWeightedELBO(20_000, max_plate_nesting=1)
        log_w.append(bound.log_weights(given, guide, *one))
    return torch.stack(log_w).logsumexp(0).logsumexp(0)[0] - math.log(20_000)


@pytest.mark.long(keep=16)
@pytest.mark.parametrize(("kind", "change"), cases(KINDS))
def test_predictions_are_those_of_the_program(kind: str, change: str) -> None:
    model, data = trained(kind, change)
    x, r = data.x[:6], data.r[:6]
    if model.shared_sites():  # the effects are averaged over by predictions alone
        model = copy.deepcopy(model)
        with torch.no_grad():
            model.shared_guide["effect_spread"].fill_(-40.0)  # the least spread, 0.05
    with torch.no_grad():
        wanted = log_ratio_of_outcomes(model, x, r)
    found = model.predict(x, r, num_samples=4096)
    if model.objective == "conditional" and not model.reads_x:
        return  # the paper's literal loss is not what it predicts
    torch.testing.assert_close(found, wanted.to(found), rtol=0.0, atol=0.03)
    # ... which the unchanged model's are not
    plain = copy.deepcopy(model)
    plain.__class__ = type(model).__mro__[2]
    if change != "shared":
        assert (plain.predict(x, r) - found).abs().max() > 0.01


@pytest.mark.long(keep=10)
@pytest.mark.parametrize(("kind", "change"), cases(KINDS + OTHERS))
def test_log_likelihoods_of_draws_are_those_of_the_program(kind: str, change: str) -> None:
    model, data = trained(kind, change)
    few = data.map(lambda column: column[:5])
    draws = model.posterior(*few, num_samples=6, num_proposals=64, progress=False)
    assert set(model.latent_shapes()) - set(model.prediction_plan.informed) <= set(draws)
    found = model.log_likelihood(*few, sites=draws)
    program = model.training_pair(model.objective).program
    y = model.response.outcome(few.y)
    for s in range(6):
        sites = {name: draws[name][s] for name in model.latent_shapes() if name in draws}
        if "effect" in sites:  # the program has one of all rows
            assert (sites["effect"] == sites["effect"][:1]).all()
            sites["effect"] = sites["effect"][0]
        given = poutine.trace(poutine.condition(program, sites)).get_trace(few.x, few.r, y)
        given.compute_log_prob()
        site = given.nodes["y"]
        if "k" in sites and "k" not in given.nodes:  # it was integrated out
            continue
        torch.testing.assert_close(found[s], site["log_prob"].detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.long(keep=10)
@pytest.mark.parametrize(("kind", "change"), cases(KINDS))
def test_posterior_draws_agree_with_the_outcome_and_with_importance_sampling(
    kind: str, change: str
) -> None:
    model, data = trained(kind, change)
    few = data.map(lambda column: column[:3])
    options: Any = {"num_samples": 4000, "num_proposals": 20_000, "progress": False}
    draws = model.cost_posterior(*few, **options)
    if change == "site":
        pair = model.training_pair(model.objective)
        if not pair.enumerated:
            wanted = _posterior_mean(pair, "u", few)
            torch.testing.assert_close(draws["u"].mean(0), wanted, rtol=0.0, atol=0.1)
        assert draws["u"].shape == (4000, 3, 1)
    known = {name: values for name, values in draws.items() if name != "c"}
    again = Predicted(model, model.prediction_plan, known=known).read(few.x, few.r)
    happened = again.p_y.event if hasattr(again.p_y, "event") else again.p_y
    units, c = model.cost_units(few.r), draws["c"]
    c = c if units is None else units.to_standard(c)
    agrees = happened.given_cost(c).mean == few.y
    assert agrees.all()


def _posterior_mean(pair: Any, site: str, rows: zoo.Rows) -> Tensor:
    """E[site | x, r, y] by importance weights of the programs in Pyro, [B, d]."""
    torch.manual_seed(1)
    bound = ImportanceWeightedELBO(20_000, max_plate_nesting=1)
    kept: list[Any] = []
    with torch.no_grad():
        log_w = bound.log_weights(pair.program, _keeping(pair.guide, site, kept), *rows[:3])
    weights = log_w.softmax(0).unsqueeze(-1)
    return (weights * kept[0].reshape(*log_w.shape, -1)).sum(0)


def _keeping(guide: Any, site: str, kept: list[Any]) -> Any:
    class Keep(poutine.messenger.Messenger):
        def _pyro_post_sample(self, msg: Any) -> None:
            if msg["name"] == site:
                kept.append(msg["value"])

    return Keep()(guide)


@pytest.mark.long(keep=16)
@pytest.mark.parametrize(("kind", "change"), cases(KINDS + OTHERS))
def test_other_predictions_and_saving_follow(kind: str, change: str, tmp_path: Path) -> None:
    model, data = trained(kind, change)
    x, r = data.x[:4], data.r[:5]
    each = torch.stack([model.predict(x, one.expand(4, -1)) for one in r], 1)
    torch.testing.assert_close(model.surface(x, r), each, rtol=0.0, atol=1e-12)
    values, weights = model.surface_draws(x, r)
    mean = values.mean(0) if weights is None else (values * weights).sum(0)
    torch.testing.assert_close(mean, each, rtol=1e-9, atol=1e-9)
    if isinstance(model, GCM) and model.response.is_probability:
        level = float(model.predict(x, r[:4]).mean())
        needed = model.required_revenue(x, level)
        reached = needed.isfinite()
        at = model.r_standardizer.loc.to(needed).expand(4, -1).clone()
        at[:, 0] = needed
        assert (model.predict(x[reached], at[reached]) >= level).all()
    again = load(save(model, tmp_path / "saved") or tmp_path / "saved")
    assert type(again) is type(model)
    assert torch.equal(again.predict(x, r[:4]), model.predict(x, r[:4]))
    few = data.map(lambda column: column[:4])
    container = to_arviz(model, *few, num_samples=8, num_proposals=64, progress=False)
    if change in ("site", "shared"):
        assert {"site": "u", "shared": "effect"}[change] in container.posterior


@pytest.mark.long(keep=3)
@pytest.mark.parametrize(
    ("kind", "change"), [case for case in cases(KINDS[:7] + OTHERS) if case[0] != "joint"]
)
def test_strict_predictions_of_a_changed_story_never_fall(kind: str, change: str) -> None:
    model, _ = trained(kind, change)
    data = zoo.rows(zoo.KINDS[kind].response, 2000, seed=5)
    g = torch.Generator().manual_seed(2)
    for _ in range(13):  # 104,000 pairs, many in a call
        column = int(torch.randint(2, (), generator=g))
        before = model.predict(data.x, data.r)
        steps = (
            torch.nextafter(data.r[:, column], torch.tensor(math.inf).double()),
            data.r[:, column] * (1.0 + 1e-12),
            data.r[:, column] + 1e-3 * data.r[:, column].abs(),
            data.r[:, column] + torch.rand(2000, generator=g).double() * data.r[:, column].abs(),
        )
        for step in steps:
            raised = data.r.clone()
            raised[:, column] = torch.maximum(step, data.r[:, column])
            assert (model.predict(data.x, raised) >= before).all()
        data = data._replace(r=data.r * (1.0 + 0.3 * torch.randn(2000, 2, generator=g).double()))


def test_a_view_that_is_overridden_is_refused() -> None:
    class Own(GCM):
        def model(self, *args: Any, **options: Any) -> Any:
            return super().model(*args, **options)

    class Guided(GCM):
        def guide(self, *args: Any, **options: Any) -> Any:
            return super().guide(*args, **options)

    data = zoo.rows(count=8)
    own, guided = zoo.make(Own), zoo.make(Guided)
    for call in (lambda: zoo.quickly(own, data), lambda: own.predict(data.x, data.r)):
        with pytest.raises(TypeError, match=r"Own overrides model, a view .*: override story"):
            call()
    with pytest.raises(TypeError, match=r"Guided overrides guide, .*: override guide_story"):
        zoo.quickly(guided, data)
    assert guided.predict(data.x, data.r).isfinite().all()


def test_a_story_with_another_kernel_needs_its_exact_posterior() -> None:
    class Kernel(IGCM):
        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            def line(name: str, p: Any, obs: Any = None) -> Any:
                if name == "k":
                    return sample("k", dist.Normal(torch.full((2,), 2.0).double(), 1.0).to_event(1))
                return sample(name, p, obs)

            line.deterministic = sample.deterministic  # type: ignore[attr-defined]
            return super().story(line, x, r, y)

    with pytest.raises(ValueError, match="distribution of 'k' other than k_dist"):
        zoo.quickly(zoo.make(Kernel), zoo.rows(count=8))

    class Other(IGCM):
        def k_dist(self, x: Any) -> Any:
            return dist.Normal(torch.full((2,), 2.0).double(), 1.0).to_event(1)

    with pytest.raises(ValueError, match="Other overrides k_dist, and so needs a k_posterior"):
        zoo.make(Other)


def test_a_story_that_hides_columns_from_z_needs_no_guide() -> None:
    class Hiding(GCM):
        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            def line(name: str, p: Any, obs: Any = None) -> Any:
                return sample(name, self.z_dist(0.0 * x) if name == "z" else p, obs)

            return super().story(line, x, r, y)

    model, rows = zoo.make(Hiding), zoo.rows(count=40)
    zoo.quickly(model, rows)
    x, r, y = (column[:2] for column in rows[:3])
    nodes = poutine.trace(model.guide).get_trace(x, r, y).nodes
    torch.testing.assert_close(nodes["z"]["fn"].mean, model.z_dist(0.0 * x).mean)
    assert torch.equal(model.predict(x, r), model.predict(x[[0, 0]], r))


class WithRevenues(GCM):
    objective_records = {
        **GCM.objective_records,
        "with revenues": Plan(given=("x",)),
    }


def test_an_objective_is_one_record() -> None:
    """log p(y, r | x): revenues that are scored in training do not weigh predictions in them."""
    data, model = zoo.rows(count=300), zoo.make(WithRevenues)
    zoo.quickly(model, data, objective="with revenues", epochs=3)
    assert model.simulate(x=data.x)["r"].shape == data.r.shape
    with torch.no_grad():
        model.r_decoder.net[-1].weight.mul_(8.0)
    x, r = data.x.repeat(40, 1), data.r.repeat(40, 1)
    higher = r + 0.3 * torch.rand(r.shape, generator=torch.Generator().manual_seed(0))
    assert (model.predict(x, higher) >= model.predict(x, r)).all()
    assert "c" in model.cost_posterior(data.x[:2], data.r[:2], data.y[:2], num_samples=9)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
@pytest.mark.parametrize("family", [zoo.Factor, zoo.Modes])
def test_posteriors_of_a_factor_and_of_modes_are_those_of_rejection(
    family: type[GCM], outcome: float
) -> None:
    model, rows = zoo.informative(zoo.make(family)), zoo.rows(count=400)
    model.learn_units(*rows[:3])
    x, r, y = rows.x[:1], rows.r[:1], torch.tensor([outcome]).double()
    draws = model.cost_posterior(x, r, y, num_samples=4000, num_proposals=20_000, progress=False)
    torch.manual_seed(2)
    sites = poutine.trace(model.model).get_trace(x.expand(40_000, -1), r.expand(40_000, -1)).nodes
    happened = sites["y"]["value"] == outcome
    for name in ("z", "u", "c"):
        found, wanted = draws[name][:, 0], sites[name]["value"][happened]
        for k, column in enumerate(wanted.reshape(len(wanted), -1).T):
            column_found = found.reshape(len(found), -1)[:, k]
            assert ks_2samp(column_found.numpy(), column.detach().numpy()).pvalue > 1e-3
    together = (np.corrcoef(v.detach().T.numpy()) for v in (draws["c"][:, 0], wanted))
    np.testing.assert_allclose(*together, atol=0.08)
