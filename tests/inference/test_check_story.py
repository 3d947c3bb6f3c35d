"""Every reader takes a story of a user's as Pyro does, or it is refused by name."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from random_stories import random_model, rows
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.distributions import shifted
from pyro_gcm.inference import check_story, of_rows
from pyro_gcm.testing import StoryTests

X, R, Y = rows(60)


def told(lines: Callable[..., Any], base: Any = GCM, **options: Any) -> Any:
    """A model whose story has these lines between those of z and c, which they shift."""

    class Own(base):
        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            z = sample("z", lambda: self.z_dist(x))
            by = lines(sample, z, x, r)
            c = sample("c", lambda: shifted(self.c_dist(z, x), by) if by is not None else None)
            return sample("y", lambda: self.y_dist(c, x, r), obs=y)

    return Own(3, 2, **{"seed": 0, **options})


def normal(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return sample("u", dist.Normal(torch.zeros(len(x)), 1.0))


def renamed(name: str) -> Callable[..., Any]:
    return lambda sample, z, x, r: sample(name, dist.Normal(torch.zeros(len(x)), 1.0))


def twice(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return normal(sample, z, x, r) + normal(sample, z, x, r)


def bare(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return pyro.sample("u", dist.Normal(torch.zeros(len(x)), 1.0))


def plated(sample: Any, z: Any, x: Any, r: Any) -> Any:
    with pyro.plate("items", 3, dim=-2):
        return sample("u", dist.Normal(0.0, 1.0)).sum(-2)


def factored(sample: Any, z: Any, x: Any, r: Any) -> Any:
    pyro.factor("f", z[..., 0])


def scaled(sample: Any, z: Any, x: Any, r: Any) -> Any:
    with poutine.scale(scale=2.0):
        return normal(sample, z, x, r)


def from_the_front(sample: Any, z: Any, x: Any, r: Any) -> Any:
    u = sample("u", dist.Normal(torch.zeros(len(x), 3), 1.0).to_event(1))
    return torch.softmax(3.0 * u, 1)[..., 0]


def a_column(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return normal(sample, z, x, r)[:, None]


def numbered(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return sample(3, dist.Normal(0.0, 1.0))


def across_rows(sample: Any, z: Any, x: Any, r: Any) -> Any:
    u = normal(sample, z, x, r)
    return u - u.mean(-1, keepdim=True)


def without_event(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return sample("u", dist.Normal(torch.zeros(len(x), 1), 1.0))[..., 0]


def noisy(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return normal(sample, z, x, r) + torch.randn(len(x))


def a_tensor(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return sample("u", torch.zeros(len(x)))


def concatenated(sample: Any, z: Any, x: Any, r: Any) -> Any:
    return sample("u", lambda: dist.Normal(torch.cat([z, x], -1)[..., 0], 1.0))


REFUSED = {
    bare: r"pyro.sample\('u'\).* use the story's own argument",
    plated: r"pyro.sample\('items'\)",
    factored: r"pyro.sample\('f'\)",
    scaled: "line 'u' of the story is inside ScaleMessenger",
    from_the_front: "site 'c' .*index from the end",
    a_column: r"site 'c' has batch shape .*index from the end",
    numbered: "needs a name of its site, got 3",
    across_rows: "site 'c' of the story has another density",
    without_event: r"site 'u' has batch shape \[\d, 1\].* add .to_event\(1\)",
    noisy: "site 'c' of the story has another density.*use sites for noise",
    a_tensor: "line 'u' needs a distribution, got Tensor",
    concatenated: "fails at line 'u'.*index from the end",
    twice: "site 'u' of the story is there twice",
    renamed("e"): "'e' is a name of the library's",
    renamed("w"): "'w' is a name of the library's",
    renamed("data"): "'data' is a name of the library's",
    renamed("x"): "line 'x' of the story needs obs=x",
    renamed("y"): "after 'y'|story has no line|'y' needs|twice",
}


def test_what_readers_would_take_differently_is_refused_by_name() -> None:
    for lines, message in REFUSED.items():
        model = told(lines)
        before = [parameter.clone() for parameter in model.parameters()]
        for call in (
            lambda model: fit(model, X, R, Y, epochs=1, progress=False),
            lambda model: model.predict(X, R),
            lambda model: model.posterior(X, R, Y, num_samples=2, progress=False),
        ):
            with pytest.raises((ValueError, TypeError), match=message):
                call(model)
        assert all(map(torch.equal, before, model.parameters())), message


def test_a_story_without_a_line_that_readers_need_is_refused_by_name() -> None:
    class Own(GCM):
        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            z = sample(names["z"], lambda: self.z_dist(x))
            c = sample(names["c"], lambda: self.c_dist(z, x))
            return sample(names["y"], lambda: self.y_dist(c, x, r), obs=y)

    for lacking in "zcy":
        names = {name: f"{name}2" if name == lacking else name for name in "zcy"}
        with pytest.raises(ValueError, match=f"'{lacking}'"):
            fit(Own(3, 2), X, R, Y, epochs=1, progress=False)


def test_a_site_that_depends_on_r_is_said_to_let_predictions_fall() -> None:
    model = told(lambda sample, z, x, r: sample("u", lambda: dist.Normal(2.0 * r[..., 0], 1.0)))
    with pytest.warns(UserWarning, match="site 'u' of the story depends on r"):
        table = check_story(model, X, R)
    assert table.index[table.depends_on_r].tolist() == ["u"]


def test_an_outcome_that_falls_in_r_is_told() -> None:
    class Own(GCM):
        def y_dist(self, cost: Any, x: Tensor, r: Tensor) -> Any:
            return super().y_dist(cost, x, -r)

    with pytest.warns(UserWarning, match="the outcome of the story falls where r rises"):
        check_story(Own(3, 2, seed=0), X, R)


def test_the_table_has_the_sites_of_a_story() -> None:
    class Own(GCM):
        def shared(self, sample: Any) -> Any:
            return sample("effect", dist.Normal(torch.zeros(4), 1.0).to_event(1))

        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            z = sample("z", lambda: self.z_dist(x))
            m = sample("m", dist.Bernoulli(0.3))
            sample("proxy", lambda: dist.Normal(z[..., 0], 1.0), obs=x[..., 1])
            by = m + of_rows(sample.shared, x[..., 2])
            c = sample("c", lambda: shifted(self.c_dist(z, x), by))
            return sample("y", lambda: self.y_dist(c, x, r), obs=y)

    table = check_story(Own(3, 2, seed=0), X, R)
    kinds = {"effect": "shared", "z": "latent", "m": "finite", "proxy": "observed"}
    assert table.kind.to_dict() == {**kinds, "c": "cost", "y": "outcome"}
    assert table["shape"].to_dict() == {
        "effect": (4,), "z": (4,), "m": (), "proxy": (), "c": (2,), "y": (),
    }  # fmt: skip
    assert set(table.read_by) == {"all"}
    assert not table.depends_on_r.any()
    whole = check_story(GCM(3, 2, prior="standard"))
    assert whole.read_by.to_dict() == {
        "z": "all", "x": "program", "w": "program", "r": "program", "c": "all", "y": "all",
    }  # fmt: skip


def test_a_switch_turned_after_the_first_use_and_a_method_set_on_the_model_are_followed() -> None:
    class Switched(GCM):
        has_u = False

        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            z = sample("z", lambda: self.z_dist(x))
            u = normal(sample, z, x, r) if self.has_u else 0.0 * x[..., 0]
            c = sample("c", lambda: shifted(self.c_dist(z, x), u))
            return sample("y", lambda: self.y_dist(c, x, r), obs=y)

    model = Switched(3, 2, seed=0)
    model.predict(X, R)
    model.has_u = True
    assert "u" in model.posterior(X[:2], R[:2], Y[:2], num_samples=5, progress=False)
    plain = GCM(3, 2, seed=0)
    plain.y_dist = lambda cost, x, r: GCM.y_dist(plain, cost, x, r + 1.0)  # type: ignore[method-assign]
    by_pairs = plain.surface(X[:3], R[:3]).diagonal()
    torch.testing.assert_close(by_pairs, plain.predict(X[:3], R[:3]))
    torch.testing.assert_close(by_pairs, GCM(3, 2, seed=0).predict(X[:3], R[:3] + 1.0))


def test_sites_that_all_rows_share_have_a_draw_for_each_and_any_support() -> None:
    shared = {
        "simplex": lambda: dist.Dirichlet(torch.ones(4)),
        "full": lambda: dist.MultivariateNormal(torch.zeros(4), torch.eye(4)),
        "positive": lambda: dist.HalfCauchy(torch.ones(4)).to_event(1),
        "folded": lambda: dist.Normal(torch.zeros(4), 1.0),
        "binary": lambda: dist.Bernoulli(0.5 * torch.ones(4)).to_event(1),
        "matrix": lambda: dist.LKJCholesky(4, torch.tensor(1.0)),
    }

    class Own(GCM):
        def shared(self, sample: Any) -> Any:
            return {name: sample(name, make()) for name, make in shared.items()}

        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            values = {n: v[..., -1, :] if n == "matrix" else v for n, v in sample.shared.items()}
            by = sum(of_rows(v, x[..., 2]) for v in values.values())
            z = sample("z", lambda: self.z_dist(x))
            v = sample("v", lambda: dist.Normal(by, 1.0))  # a site of a row depends on them
            c = sample("c", lambda: shifted(self.c_dist(z, x), v))
            return sample("y", lambda: self.y_dist(c, x, r), obs=y)

    model = Own(3, 2, seed=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "training ended with a loss")
        fit(model, X, R, Y, epochs=2, progress=False)
    draws = model.posterior(X[:3], R[:3], Y[:3], num_samples=300, progress=False)
    assert draws["simplex"].shape == (300, 3, 4)
    assert len(draws["full"][:, 0, 0].unique()) == 300
    assert torch.allclose(draws["simplex"].sum(-1), torch.ones(300, 3), atol=1e-5)
    # The evidence, against the mean of predictions given each draw of the guide.
    p = model.predict(X[:3], R[:3], num_samples=8192).double()
    wanted = torch.where(Y[:3] > 0.5, p, 1.0 - p).log()
    error = draws.log_evidence_error.double().clamp(min=0.02)
    assert ((draws.log_evidence - wanted).abs() < 5.0 * error).all()


class RandomStory(StoryTests):
    """The column of groups is not a random number."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def make(self) -> Any:
        return random_model(self.seed)

    def rows(self, model: Any, count: int) -> Any:
        return rows(count)


@pytest.mark.long(keep=20)
@pytest.mark.parametrize("seed", range(200))
def test_stories_made_at_random_mean_what_pyros_program_says(seed: int) -> None:
    tests = RandomStory(seed)
    tests.test_every_reader_takes_the_story_alike()
    tests.test_the_loss_of_fit_is_that_of_pyro()
    tests.test_predictions_are_averages_over_the_program()
    tests.test_posteriors_are_those_of_importance_sampling()


def test_a_parameter_that_a_story_does_not_use_is_named_once() -> None:
    class Own(GCM):
        def c_dist(self, z: Tensor, x: Tensor) -> Any:
            return dist.Normal(z[..., :2], 1.0).to_event(1)

    with pytest.warns(UserWarning, match=r"no gradient reached \['cost_net"):
        result = fit(Own(3, 2, seed=0), X, R, Y, epochs=1, progress=False)
    assert math.isfinite(result.rows[-1]["loss"])
