"""Stories made at random, and what Pyro's program says of them by brute force."""

from __future__ import annotations

import random
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.distributions import shifted
from pyro_gcm.inference import of_rows

GROUPS = 4
SEEN, FINITE = ("seen", "seen yes"), ("bernoulli", "categorical")
WIDE = ("normal", "student", "lognormal", "exponential", "gamma", "beta")
KINDS = (*WIDE, *FINITE, *SEEN, "shared")


def rows(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """x, whose last column is the number of a group, r and y."""
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(count, 3, generator=g), torch.rand(count, 2, generator=g)
    x[:, 2] = (torch.arange(count) % GROUPS).float()
    noise = torch.randn(count, generator=g)
    return x, r, (r.sum(1) + 0.3 * x[:, 0] + 0.5 * noise > 1.0).float()


def recipe(seed: int) -> list[dict[str, Any]]:
    """2 to 6 sites: what each is, and how it depends on earlier ones."""
    rng, sites = random.Random(seed), list[dict[str, Any]]()
    for i in range(rng.randint(2, 6)):
        kind = rng.choice(KINDS)
        if kind in FINITE and sum(site["kind"] in FINITE for site in sites) == 2:
            kind = "normal"  # their values multiply
        event = tuple(rng.randint(1, 3) for _ in range(rng.choice((0, 0, 1, 2))))
        earlier = [j for j in range(i) if sites[j]["kind"] not in SEEN and rng.random() < 0.5]
        strength = 2.8 if kind in SEEN else 0.7  # seen sites say much
        site = {"name": f"s{i}", "kind": kind, "event": event if kind in WIDE else ()}
        site["on"] = {j: rng.uniform(-strength, strength) for j in earlier if kind != "shared"}
        site["slope"] = rng.uniform(-0.5, 0.5)
        site["masked"] = kind in SEEN and rng.random() < 0.3
        site["scale"] = 0.5 if kind in SEEN and rng.random() < 0.3 else 1.0
        site["bare"] = not site["on"] and kind in ("normal", "bernoulli") and rng.random() < 0.3
        sites.append(site)
    return sites


def distribution_of(site: dict[str, Any], at: Tensor) -> Any:
    """The distribution of a site of a row, at a location [..., B]."""
    kind, event = site["kind"], site["event"]
    if site["bare"]:  # without the rows
        if kind == "bernoulli":
            return dist.Bernoulli(0.3)
        return dist.Normal(0.0, 1.0).expand(event).to_event(len(event))
    loc = at.reshape(*at.shape, *(1,) * len(event)).expand(*at.shape, *event)
    made = {
        "normal": lambda: dist.Normal(loc, 0.8),
        "student": lambda: dist.StudentT(5.0, loc, 0.7),
        "lognormal": lambda: dist.LogNormal(0.3 * loc, 0.4),
        "exponential": lambda: dist.Exponential(torch.exp(0.3 * loc)),
        "gamma": lambda: dist.Gamma(2.0 + torch.sigmoid(loc), 2.0),
        "beta": lambda: dist.Beta(2.0 + torch.sigmoid(loc), 3.0),
        "bernoulli": lambda: dist.Bernoulli(torch.sigmoid(loc)),
        "categorical": lambda: dist.Categorical(logits=torch.stack([loc, -loc, 0.5 + 0 * loc], -1)),
        "seen": lambda: dist.Normal(loc, 0.7),
        "seen yes": lambda: dist.Bernoulli(torch.sigmoid(loc)),
    }[kind]()
    return made.to_event(len(event))


def random_model(seed: int) -> Any:
    """A GCM with a story made at random."""
    sites = recipe(seed)
    common = [site for site in sites if site["kind"] == "shared"]

    class Story(GCM):
        def guide_story(self, sample: Any, x: Any, r: Any, y: Any) -> None:
            """Every site is drawn as the story says."""

        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            along, number = x[..., :2] @ x.new_tensor([0.5, -0.3]), x[..., 2]
            z, values, total = sample("z", lambda: self.z_dist(x)), {}, 0.2 * along
            for i, site in enumerate(sites):
                at = site["slope"] * along
                at = at + sum(weight * values[j] for j, weight in site["on"].items())
                if site["kind"] == "shared":
                    values[i] = of_rows(sample.shared[site["name"]], number)
                else:
                    value = self.line(sample, site, at, x)
                    for _ in site["event"]:
                        value = value.sum(-1)
                    values[i] = torch.tanh(0.5 * value.to(x.dtype))
                if site["kind"] not in SEEN:
                    total = total + values[i]
            c = sample("c", lambda: shifted(self.c_dist(z, x), total))
            return sample("y", lambda: self.y_dist(c, x, r), obs=y)

        @staticmethod
        def line(sample: Any, site: dict[str, Any], at: Tensor, x: Tensor) -> Tensor:
            observed = {"seen": x[..., 0], "seen yes": (x[..., 1] > 0).float()}
            obs = observed.get(site["kind"])
            masked, scale = site["masked"], site["scale"]
            if obs is None:
                return sample(site["name"], lambda: distribution_of(site, at))
            with poutine.mask(mask=x[..., 1] > 0 if masked else True), poutine.scale(scale=scale):
                return sample(site["name"], lambda: distribution_of(site, at), obs=obs)

    class WithShared(Story):
        def shared(self, sample: Any) -> Any:
            prior = dist.Normal(torch.zeros(GROUPS), 0.7).to_event(1)
            return {site["name"]: sample(site["name"], prior) for site in common}

    return (WithShared if common else Story)(3, 2, seed=seed, num_samples=2048)
