"""Protocol "released": the forms against Pyro, autograd and brute force; data, updates, tables."""

import json
import math

import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from toys import REAL, options
from toys import table as made

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import collapse
from reproduce import public, released, released_rows, released_tables
from reproduce.released import FORMS, MAPPED
from reproduce.released_baselines import SHIFT
from reproduce.released_costs import DRAWS, spread
from reproduce.released_forms import POSITIVE, Part, cross_entropy, positive
from reproduce.released_training import SIGN_EPSILON, Stacked, Updates, train
from reproduce.rendering.tables import paper_table_3
from reproduce.runs import read_results

OPTIONS = {"z_dim": 3, "loss_type": 0, "epsilon": 0.0}
SEEDS = (0, 1)


def form_of(name, binary=True, **more):
    own = {**OPTIONS, **more} if name in ("GCM", "IGCM") else more
    return FORMS[name](4, 2, 6, binary, own)


def parameters(form, dtype=torch.float64):
    stacked = Stacked(form.sizes(), SEEDS)
    stacked.theta = (stacked.theta.detach().to(dtype) * 2.0).requires_grad_()
    return stacked


def rows(count=7):
    noise = torch.Generator().manual_seed(3)
    x, r = (torch.randn(2, count, size, generator=noise, dtype=torch.float64) for size in (4, 2))
    return x, r, (torch.rand(2, count, generator=noise) > 0.5).double()


class Guide(torch.nn.Module):
    """q(z|x) of the released network."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x, r, y):
        h = torch.tanh(x.double() @ self.p["wx"] + self.p["b"])
        scale = (0.5 * (h @ self.p["wsig"] + self.p["bsig"])).exp()
        return dist.Normal(h @ self.p["wmu"] + self.p["bmu"], scale).to_event(1)


class Costs(Guide):
    """p(c|z) of the released network."""

    def forward(self, z):
        h = torch.tanh(z.double() @ self.p["wh"] + self.p["bh"])
        loc = h @ self.p["wmc"] + self.p["bmc"]
        return dist.Logistic(loc, spread(h @ self.p["wsc"] + self.p["bsc"])).to_event(1)


class Revenue(Guide):
    """r P with a positive matrix P."""

    def forward(self, r):
        return r.double() @ positive(self.p["wr"])


@pytest.mark.parametrize("name", ["GCM", "IGCM"])
def test_the_binary_loss_and_its_gradient_are_those_of_the_librarys_program(name):
    form, (x, r, y) = form_of(name), rows()
    stacked = parameters(form)
    p = stacked.views()
    noise = torch.randn(2, 7, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    loss = -form.bound(p, form.costs(p, x, r, noise), y).mean(1)
    wanted = torch.autograd.grad(loss.sum(), stacked.theta, retain_graph=True)[0]

    found, gradient = [], torch.zeros_like(wanted)
    for seed in range(2):
        own = {key: value[seed] for key, value in stacked.views().items()}
        shared = {"prior": "standard", "guide": Guide(own), "z_dim": 3, "cost_family": Costs(own)}
        known = {}
        if name == "GCM":
            model = GCM(4, 2, revenue_map=Revenue(own), **shared).double()
        else:  # the released event reads the mean of the kernel in place of a draw
            model = IGCM(4, 2, **shared).double()
            known["k"] = form.revenue(stacked.views(), r)[seed]
        pyro.clear_param_store()
        inputs = x[seed], r[seed], y[seed]
        drawn = poutine.trace(model.guide).get_trace(*inputs)
        q = drawn.nodes["z"]["fn"]
        z = q.base_dist.loc + q.base_dist.scale * noise[seed].movedim(1, 0)  # [N, B, D]
        program = poutine.condition(collapse(model.model), {"z": z, **known})
        trace = poutine.trace(program).get_trace(*inputs)
        trace.compute_log_prob()
        log_p = trace.nodes["y"]["log_prob"]
        weight = (trace.nodes["z"]["log_prob"] - q.log_prob(z)).detach()
        each = math.log(len(z)) - torch.logsumexp(log_p + weight, 0)
        found.append(each.mean())
        gradient = gradient + torch.autograd.grad(found[-1], stacked.theta, retain_graph=True)[0]
    torch.testing.assert_close(torch.stack(found), loss, rtol=0.0, atol=1e-6)
    torch.testing.assert_close(gradient, wanted, rtol=0.0, atol=1e-6)
    assert wanted.abs().max() > 1e-3


@pytest.mark.long(keep=5)
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("name", list(FORMS))
def test_seeds_do_not_see_each_other(name, binary):
    form, (x, r, y) = form_of(name, binary, **own_type(name, binary)), rows()
    stacked = parameters(form)
    loss = form.loss(stacked.views(), x, r, y, torch.Generator().manual_seed(0))
    gradient = torch.autograd.grad(loss[0], stacked.theta)[0]
    assert not gradient[1].any()
    assert gradient[0].any()


def own_type(name, binary):
    if name not in ("GCM", "IGCM"):
        return {}
    return {"loss_type": 0 if binary else 2, "epsilon": 1e-12}


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("name", ["PosNN", "MM", "SMM", "CMNN", "SMNN", "GCM"])
def test_strict_forms_rise_in_r(name, binary):
    form, (x, r, _) = form_of(name, binary, **own_type(name, binary)), rows(50)
    p = parameters(form).views()
    noise = torch.randn(2, 1, 8, 3, dtype=torch.float64)
    low, high = (form.predict(p, x, v, noise) for v in (r, r + torch.tensor([0.3, 0.0])))
    assert (high >= low).all()
    assert (high > low).any()


@pytest.mark.parametrize("by", list(POSITIVE)[1:])
@pytest.mark.parametrize("name", MAPPED)
def test_a_map_to_positive_weights_is_another_network(name, by):
    form, (x, r, y) = form_of(name, positive=by), rows(50)
    gradients = []
    for each in (form_of(name), form):
        stacked = parameters(each)
        loss = each.loss(stacked.views(), x, r, y, torch.Generator().manual_seed(0))
        gradients += torch.autograd.grad(loss.sum(), stacked.theta)
    assert not torch.equal(*gradients)
    if name != "IGCM" and by != "leaky relu(W)":  # which may be negative
        draws = torch.randn(2, 1, 8, 3, dtype=torch.float64)
        raised = r + torch.tensor([0.3, 0.0])
        low, high = (form.predict(stacked.views(), x, v, draws) for v in (r, raised))
        assert (high >= low).all()


def test_maps_are_compared_with_the_released_one():
    settings = released.settings_of("auto_mpg", "MM")[0]
    other = {**settings, "positive": "exp(W)"}
    both = [
        made({("MM", "RMSE"): values}, dataset="auto_mpg", settings=json.dumps(of))
        for of, values in ((settings, [3.0, 3.1, 3.2]), (other, [4.0, 4.15, 4.2]))
    ]
    lines = released_tables.positive_maps(pd.concat(both)).splitlines()
    assert "| MM | softplus(10 W) / 10 | 3.100 ± 0.2484 |" in lines
    assert "| MM | exp(W) | 4.117 ± 0.2586* |" in lines
    assert "| MM | square(W) | not run |" in lines
    counts = [released_tables.positive_counts(pd.concat(both), w) for w in ("worse", "better")]
    assert counts == ["1 of 1", "0 of 1"]
    assert released_tables.positive_counts(pd.concat(both), "worse", "square(W)") == "0 of 0"


@torch.no_grad()
def test_the_continuous_density_integrates_to_one_and_its_mean_is_the_prediction():
    form, (x, r, _) = form_of("GCM", False, **own_type("GCM", False)), rows(3)
    p = parameters(form).views()
    drawn = form.costs(p, x, r, torch.randn(2, 3, 4, 3, dtype=torch.float64))
    mean, scale = form._response(p, drawn)
    y = torch.linspace(-400.0, 400.0, 80_001, dtype=torch.float64)
    density = torch.stack([form.log_likelihood(p, drawn, v.expand(2, 3)).exp() for v in y[::40]])
    step = float(y[40] - y[0])
    total, first = density.sum(0) * step, (density * y[::40, None, None, None]).sum(0) * step
    torch.testing.assert_close(total, torch.ones_like(total), atol=2e-3, rtol=0.0)
    torch.testing.assert_close(first, mean, atol=2e-3, rtol=0.0)
    assert (scale > 0.0).all()


def test_hints_penalty_is_that_of_all_pairs():
    form, (x, r, _) = form_of("Hint"), rows(9)
    p = parameters(form).views()
    s = form.score(p, x, r)
    value = form.penalty(p, x, r, s, torch.Generator().manual_seed(5))
    assert not value.any()  # it counts in the gradient alone
    noise = torch.Generator().manual_seed(5)
    sign = torch.rand(2, 9, generator=noise).sub(0.5).sign()
    other = form.score(p, x, r + SHIFT * torch.rand(2, 9, 2, generator=noise) * sign[..., None])
    pairs = ((s - other)[:, None, :] * sign[:, :, None]).relu().square().mean((1, 2))
    theta = [p["wx"], p["wr"]]
    for a, b in zip(
        torch.autograd.grad(pairs.sum(), theta, retain_graph=True),
        torch.autograd.grad(
            form.penalty(p, x, r, s, torch.Generator().manual_seed(5)).sum(), theta
        ),
        strict=True,
    ):
        torch.testing.assert_close(a, b.double(), rtol=1e-5, atol=1e-9)


def test_pwls_slopes_are_the_derivatives_of_its_score():
    form, (x, r, y) = form_of("PWL"), rows(9)
    p = parameters(form).views()
    r = r.requires_grad_()
    first, second, s = form.layers(p, x, r)
    slopes = torch.autograd.grad(s.sum(), r, retain_graph=True)[0]
    by_hand = ((p["w2"].mT * (1 - second**2)) @ p["w1"].mT * (1 - first**2)) @ p["wr"].mT
    torch.testing.assert_close(by_hand, slopes)
    loss = form.loss(p, x, r, y, torch.Generator())
    assert loss.tolist() == pytest.approx(cross_entropy(s.sigmoid(), y).mean(1).tolist())


def test_a_step_of_signs_is_the_first_one_of_an_adam():
    gradient = torch.tensor([[3.0, -1e-6, 0.2, 0.0]])
    ours, theirs = torch.zeros(1, 4), torch.zeros(1, 4, requires_grad=True)
    Updates("signs", ours)(ours, gradient, 0.01)
    theirs.grad = gradient.clamp(-1.0, 1.0)
    # Keras divides its epsilon by the square root of 1 - 0.999, torch does not.
    torch.optim.Adam([theirs], lr=0.01, eps=SIGN_EPSILON).step()
    torch.testing.assert_close(ours, theirs.detach())


@pytest.mark.long(keep=0)
def test_training_learns_and_seeds_differ():
    torch.manual_seed(0)
    x, r = torch.randn(400, 4), torch.randn(400, 2)
    y = (x[:, 0] + r.sum(1) > 0).float()
    learn, test = Part(x[:300], r[:300], y[:300]), Part(x[300:], r[300:], y[300:])
    settings = {"epochs": 15, "batch_size": 32, "learning_rate": 0.01, "decay": 0.99}
    for kind in ("signs", "adam", "sgd"):
        for name in ("SMM", "IGCM"):
            own = {**settings, "optimiser": kind, "start": "released"}
            own["learning_rate"] = 0.3 if kind == "sgd" else 0.01
            *_, last = train(form_of(name, epsilon=1e-5), learn, test, SEEDS, own)
            accuracy = ((last > 0.5) == test.y).double().mean(1)
            assert (accuracy > 0.8).all(), (kind, name, accuracy)
            assert not torch.equal(last[0], last[1])


@pytest.mark.long(keep=0)
@REAL
def test_both_tables_of_small_runs(tmp_path, capsys):
    asked = ["--quick", "--jobs", "1", "--datasets", "auto_mpg"]
    public.main(options(public, tmp_path, "--protocol", "released", *asked))
    table = read_results(tmp_path / "public_released.csv")
    fits = table[["method", "settings", "seed"]].drop_duplicates()
    assert len(fits) == 2 * (8 + 2 * 2)
    assert "GCM, loss_type 2, z_dim 3" in capsys.readouterr().out
    methods = ["--methods", "SMM", "Hint", "GCM"]
    public.main(options(public, tmp_path, "--protocol", "changes", *asked, *methods))
    told = capsys.readouterr().out
    assert all(change in told for change in ("as released", "Adam that keeps", "all of them"))


def test_cells_of_the_papers_numbers_meet_the_paper():
    parts = []
    for (method, name), cell in paper_table_3().items():
        if name in released_rows.KNOWN_ROWS:
            settings = released.as_json(released.settings_of(name, method)[0])
            middle, quarter = cell.mean + 0.5 * (method == "MM"), 0.2 * cell.half
            values = {(method, released.TASKS[name].metric): [middle - quarter, middle + quarter]}
            parts.append(made(values, dataset=name, split="fixed", settings=settings))
    table = pd.concat(parts)
    assert released_tables.share(table, "adult") == "8 of 9"
    assert released_tables.share(table) == "32 of 36"
    gaps = released_tables.differences(table).splitlines()
    assert gaps[0].count("|") == 6
    assert [line.count("†") for line in gaps[2:]] == [0, 4, *[0] * 7]
    assert "+0.5000†" in gaps[3]
    assert "| Adult | MM |" in released_tables.apart(table)
    others = table[table["method"] != "MM"]
    assert released_tables.order(others) == released_tables.order(others.iloc[:0])  # not all nine
    shift = 0.5 * (table["method"] == "MM")
    whole = table.assign(value=table["value"] - shift)
    assert "+1.00" in released_tables.order(whole)


def test_draws_are_those_of_the_loss():
    seen = []

    class Counted(FORMS["GCM"]):
        def bound(self, p, drawn, y):
            seen.append(drawn.z.shape[2])
            return super().bound(p, drawn, y)

    x, r, y = rows()
    noise = torch.Generator().manual_seed(0)
    for options_of_it in (OPTIONS, {**OPTIONS, "draws": 5}):
        form = Counted(4, 2, 6, True, options_of_it)
        form.loss(parameters(form, torch.float32).views(), x.float(), r.float(), y.float(), noise)
    assert seen == [DRAWS, 5]
