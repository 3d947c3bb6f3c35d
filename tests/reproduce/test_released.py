"""Protocol "released": networks against Pyro, autograd and brute force; rows and their scales."""

import gzip
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from toys import REAL, toy

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import collapse
from reproduce.released import networks, training
from reproduce.released import rows as released_rows
from reproduce.released.networks import spread
from reproduce.released.rows import rows_of
from reproduce.released.training import SIGN_EPSILON


def network(name):
    own = {"z_dim": 3, "loss_type": 0} if name in ("GCM", "IGCM") else {}
    shared = {"response": "binary", "seed": 0, "start": "released", "hidden": 6}
    return networks.made(name, 4, 2, **shared, **own).double()


def rows(count=7):
    noise = torch.Generator().manual_seed(3)
    x, r = (torch.randn(count, size, generator=noise, dtype=torch.float64) for size in (4, 2))
    return x, r, (torch.rand(count, generator=noise) > 0.5).double()


class Guide(torch.nn.Module):
    """q(z|x) of the released network."""

    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x, r, y):
        h = self.form.of_x(x.double())
        scale = (0.5 * self.form.z_log_var(h)).exp()
        return dist.Normal(self.form.z_loc(h), scale).to_event(1)


class Costs(Guide):
    """p(c|z) of the released network."""

    def forward(self, z):
        h = self.form.of_z(z.double())
        return dist.Logistic(self.form.c_loc(h), spread(self.form.c_spread(h))).to_event(1)


class Revenue(Guide):
    """r P with a positive matrix P."""

    def forward(self, r):
        return self.form.revenue(r.double())


@pytest.mark.parametrize("name", ["GCM", "IGCM"])
def test_the_binary_loss_and_its_gradient_are_those_of_the_librarys_program(name):
    form, (x, r, y) = network(name), rows()
    form.epsilon = 0.0
    noise = torch.randn(7, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    loss = -form.bound(form.drawn(x, r, noise), y).mean()
    theta = list(form.parameters())
    wanted = torch.autograd.grad(loss, theta, allow_unused=True)

    shared = {"prior": "standard", "guide": Guide(form), "z_dim": 3, "cost_family": Costs(form)}
    known = {}
    if name == "GCM":
        model = GCM(4, 2, revenue_map=Revenue(form), **shared).double()
    else:  # the released event reads the mean of the kernel in place of a draw
        model = IGCM(4, 2, **shared).double()
        known["k"] = form.revenue(r)
    pyro.clear_param_store()
    q = poutine.trace(model.guide).get_trace(x, r, y).nodes["z"]["fn"]
    z = q.base_dist.loc + q.base_dist.scale * noise.movedim(1, 0)  # [N, B, D]
    program = poutine.condition(collapse(model.model), {"z": z, **known})
    trace = poutine.trace(program).get_trace(x, r, y)
    trace.compute_log_prob()
    weight = (trace.nodes["z"]["log_prob"] - q.log_prob(z)).detach()
    each = math.log(len(z)) - torch.logsumexp(trace.nodes["y"]["log_prob"] + weight, 0)
    found = torch.autograd.grad(each.mean(), theta, allow_unused=True)
    torch.testing.assert_close(each.mean(), loss, rtol=0.0, atol=1e-6)
    for own, other in zip(found, wanted, strict=True):
        assert (own is None) == (other is None)
        if own is not None:
            torch.testing.assert_close(own, other, rtol=0.0, atol=1e-6)
    assert max(value.abs().max() for value in wanted if value is not None) > 1e-3


def test_hints_penalty_is_that_of_all_pairs():
    form, (x, r, _) = network("Hint"), rows(9)
    torch.manual_seed(5)
    value = form.penalty(x, r)
    torch.manual_seed(5)
    sign = (torch.rand_like(r[:, 0]) - 0.5).sign()
    other = form.score(x, r + form.max_shift * torch.rand_like(r) * sign[:, None])
    fall = form.score(x, r) - other
    pairs = (fall[None, :] * sign[:, None]).relu().square().mean()
    torch.testing.assert_close(value, pairs, rtol=1e-6, atol=1e-12)


def test_pwls_penalty_is_that_of_the_derivatives_of_its_score():
    form, (x, r, y) = network("PWL"), rows(9)
    r = r.requires_grad_()
    score = form.score(x, r)
    slopes = torch.autograd.grad(score.sum(), r, retain_graph=True)[0]
    wanted = form.data_loss(score, r[:, 0], y) + form.weight * (-slopes).relu().sum()
    torch.testing.assert_close(form.standard_loss(x, r, r[:, 0], y), wanted)


def test_a_step_of_signs_is_the_first_one_of_an_adam():
    gradient, moved = torch.tensor([3.0, -1e-6, 0.2, 0.0]), []
    signs, adam = (training.OPTIMISERS["signs"], torch.optim.Adam)
    for make, options_of_it in ((signs, {}), (adam, {"eps": SIGN_EPSILON})):
        # Keras divides its epsilon by the square root of 1 - 0.999, torch does not.
        weights = torch.zeros(4, requires_grad=True)
        optimiser = make([weights], lr=0.01, **options_of_it)
        for _ in range(2 if make is signs else 1):
            start = weights.detach().clone()
            weights.grad = gradient.clamp(-1.0, 1.0)
            optimiser.step()
        moved.append(weights.detach() - start)
    torch.testing.assert_close(*moved)


# The rows, columns and scales that the code behind the paper's Table 3 reads


@REAL
def test_the_rows_are_the_released_ones():
    folder = Path(os.environ["PYRO_GCM_DATA"]) / "released"
    if not folder.exists():
        pytest.skip("the released files are not there")
    with gzip.open(folder / "test_adult.csv.gz") as file:
        wanted = pd.read_csv(file).to_numpy()
    _, test = rows_of("adult", "published", "released")
    assert np.abs(test.r.numpy() - wanted[:, :4]).max() < 1e-6
    assert (test.y.numpy() == wanted[:, -1]).all()
    # The categories are in another order.
    assert sorted(map(tuple, test.x.numpy().T)) == sorted(map(tuple, wanted[:, 4:-1].T))
    for name, file in (("compas", "compas"), ("auto_mpg", "auto")):
        for part, kind in zip(
            rows_of(name, "published", "released"), ("train", "test"), strict=True
        ):
            frame = pd.read_csv(folder / f"{kind}_{file}.csv")
            y = frame.pop("ground_truth") / (10.0 if name == "auto_mpg" else 1.0)
            columns = torch.cat([part.x, part.r], 1).abs().sum(0).sort()[0]
            assert sorted(part.y.tolist()) == pytest.approx(sorted(y))
            assert columns.numpy() == pytest.approx(
                np.sort(np.abs(frame.to_numpy()).sum(0)), rel=1e-4
            )


@REAL
def test_blog_has_the_columns_that_the_pages_of_its_file_print():
    # github.com/airtai/mono-dense-keras, nbs/experiments/Blog.ipynb, the first and third row.
    front = [[0.00192, 0.001825, 0.00292, 0.001627], [0.00064, 0.001825, 0.0, 0.000651]]
    constrained = [
        [0.108675, 0.19557, 0.6, 0.391304, 0.516725, 0.55, 0.486111, 0.0],
        [0.108675, 0.19557, 0.6, 0.391304, 0.518486, 0.55, 0.138889, 0.0],
    ]
    learn, test = rows_of("blog", "published", "released")
    assert (len(learn), len(test)) == (47_302, 6_968)
    for at, (x, r) in enumerate(zip(front, constrained, strict=True)):
        logged = [math.log(1.0 + 20.0 * value) for value in x]
        assert learn.x[2 * at, :4].tolist() == pytest.approx(logged, abs=2e-5)
        assert learn.r[2 * at].tolist() == pytest.approx(r, abs=1e-6)
    assert learn.y[:3].tolist() == [0.0, 0.0, 0.125]
    assert learn.x.shape[1] + learn.r.shape[1] == 276


@pytest.mark.parametrize("low", [0.0, -0.5])
def test_a_falling_revenue_between_0_and_1_is_below_0(low, monkeypatch):
    table = toy("toy", "published", "binary", 2, 2, 100)
    r = torch.linspace(low, 1.0, 200).reshape(100, 2)
    monkeypatch.setattr(
        released_rows, "load", lambda *_: replace(table, r=r, r_names=("-falling", "rising"))
    )
    parts = rows_of("diabetes", "published", "released")
    falling, rising = torch.cat([part.r for part in parts]).sort(0)[0].T
    assert torch.equal(falling, r[:, 0] - float(low == 0.0))  # centred columns have signs already
    assert torch.equal(rising, r[:, 1])
