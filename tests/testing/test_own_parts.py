"""Every part and story of the library keeps the promises that the kit has for those of users."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import device_emulation
import extended_models
import pyro.distributions as dist
import pytest
import torch
import zoo

from pyro_gcm import GCM
from pyro_gcm.distributions import MinimumGumbel
from pyro_gcm.models import HierarchicalGCM, MemberGCM
from pyro_gcm.models.build import GUIDES, PRIORS, REVENUE_MAPS
from pyro_gcm.responses import RESPONSES, Classes, Continuous, Count, Guessed
from pyro_gcm.testing import (
    CostFamilyTests,
    GuideTests,
    PriorTests,
    ResponseTests,
    RevenueMapTests,
    StoryTests,
)

# A guide that draws other sites first, for which Pyro cannot know whether a divergence is right.
pytestmark = pytest.mark.filterwarnings("ignore:Failed to verify mean field")
SMALL = {"z_dim": 2, "hidden": 4, "num_samples": 32}
if device_emulation.AVAILABLE and not torch.cuda.is_available():
    device_emulation.register()  # before any backward pass

#: Models whose parts others have as well: they are in the weekly run.
LONG = (
    *("joint, continuous", "survival, members", "ordinal, members", "distribution, members"),
    *("implicit, one kernel", "implicit, paper", "implicit, categorical", "implicit, joint"),
)


class Everywhere:
    """Also on a device that is emulated where there is none."""

    def device(self) -> AbstractContextManager[torch.device]:
        real = torch.cuda.is_available() or not device_emulation.AVAILABLE
        return nullcontext(torch.device("cuda", 0)) if real else device_emulation.emulated()


def add(base: Any, parts: Mapping[str, Callable[[], Any]], **attributes: Any) -> None:
    """A class of tests for each part; attributes are for all of them."""
    for name, make in parts.items():
        own = {"make": lambda self, make=make: make(), **attributes}
        whole = re.sub(r"\W+", "_", f"Test {base.__name__.removesuffix('Tests')} {name}")
        globals()[whole] = type(whole, (Everywhere, base), own)
        if name in LONG:
            pytest.mark.long(keep=0)(globals()[whole])


def named(*names: str) -> dict[str, Callable[[], Any]]:
    return {name: lambda name=name: name for name in names}


add(PriorTests, named(*PRIORS))
add(GuideTests, named(*GUIDES[1:]))
add(CostFamilyTests, named("normal", "logistic", "laplace"))
add(CostFamilyTests, {"minimum gumbel": lambda: MinimumGumbel})
add(RevenueMapTests, named(*(name for name in REVENUE_MAPS if name != "probit")))
add(RevenueMapTests, named("probit"), r_dim=1, options={"response": "quantile", **SMALL})
several = {"alternatives": 2, "costs": 3, **SMALL}
add(RevenueMapTests, {"alternatives": lambda: "positive_linear"}, options=several)
add(ResponseTests, named(*(name for name in RESPONSES if name not in ("count", "quantile"))))
add(ResponseTests, named("quantile"), r_dim=1)
own = {
    "guessed": lambda: Guessed(3, 4),
    "constant noise": lambda: Continuous(3, 4, noise="constant"),
    "directed classes": lambda: Classes(
        classes=4, directions=[[1, 1], [0, -1], [0, 0], [-1, 0]], event=0
    ),
}
add(ResponseTests, own)


class Exposed:
    """Counts over exposures from 0.2 to 3.2."""

    def rows(self, model: Any, count: int) -> Any:
        x, r, y = super().rows(model, count)  # type: ignore[misc]
        exposure = 0.2 + 3.0 * torch.rand(count)
        return x, r, torch.stack([(y[:, 0] * exposure).floor(), exposure], 1)


class CountTests(Exposed, ResponseTests):
    pass


add(CountTests, {"count": lambda: "count", "Poisson": lambda: Count(3, 4, dispersion=None)})


class ZooTests(StoryTests):
    """Models whose parts are not those of a plain `GCM`."""

    def rows(self, model: Any, count: int) -> Any:
        """The cured, whose times are infinite, are censored."""
        x, r, y = super().rows(model, count)
        return x, r, torch.stack([y[:, 0].clamp(max=9.0), *y[:, 1:].T], 1) if y.dim() > 1 else y


def kinds(*names: str) -> dict[str, Callable[[], Any]]:
    return {name: lambda name=name: zoo.build(name) for name in names}


strict = (
    *("alternatives", "conditional p0", "joint", "joint, continuous", "members"),
    *("survival, members", "survival, cured", "ordinal, alternatives", "ordinal, members"),
    "distribution, members",
)
add(ZooTests, kinds(*strict))


class CountZooTests(Exposed, StoryTests):
    pass


add(CountZooTests, kinds("count, zeros", "count, members"))
# The gradient of a mean is weighed otherwise than that of its noise, on purpose.
add(ZooTests, kinds("members, continuous"), test_gradients_are_finite_differences=None)
implicit = [name for name in zoo.KINDS if name.startswith("implicit")]
add(ZooTests, kinds(*implicit), test_predictions_never_fall=None)


class Linear(torch.nn.Module):
    """A prior from a linear map of x."""

    def __init__(self, build: Callable[[Any], Any]) -> None:
        super().__init__()
        self.linear, self.build = torch.nn.Linear(3, 2), build

    def forward(self, x: Any) -> Any:
        return self.build(self.linear(x))


def full_normal(loc: Any) -> Any:
    return dist.MultivariateNormal(loc, scale_tril=(torch.eye(2) + 0.3).tril().to(loc))


OF_USERS: dict[str, Callable[[Any], Any]] = {
    "full normal": full_normal,
    "uniform": lambda loc: dist.Uniform(loc, loc + 1.0).to_event(1),
    "gamma": lambda loc: dist.Gamma(3.0 + loc.exp(), 1.0).to_event(1),
    "student": lambda loc: dist.StudentT(9.0, loc, 1.0).to_event(1),
}
# A function of this file has no name for pickle.
add(
    PriorTests,
    {name: lambda build=build: Linear(build) for name, build in OF_USERS.items()},
    test_copies_pickles_and_saved_models_predict_the_same_bits=None,
)


# Stories that a subclass changes


class ChangedTests(ZooTests):
    kind = change = ""
    test_a_second_device_gives_the_same_numbers = None  # they are written for the CPU

    def make(self) -> Any:
        kind = zoo.KINDS[self.kind]
        return zoo.make(extended_models.class_of(self.change, kind.family), **kind.options)


CHANGED = {
    "site": ("plain", "posterior guide", "continuous", "implicit"),
    "z_dist": ("plain", "survival"),
    "c_dist": ("alternatives", "members"),
    "y_dist": ("splines and logistic costs", "members"),
    "shared": ("plain", "ordinal"),
}
for change, of_kinds in CHANGED.items():
    for kind in of_kinds:
        strictly = {} if kind != "implicit" else {"test_predictions_never_fall": None}
        name = re.sub(r"\W+", "_", f"Test {change} of {kind}")
        own = {"kind": kind, "change": change, **strictly}
        globals()[name] = type(name, (Everywhere, ChangedTests), own)
        if kind != of_kinds[0]:
            pytest.mark.long(keep=0)(globals()[name])


class ConcaveTests(StoryTests):
    """Of revenues with diminishing returns, which are at least 0."""

    def rows(self, model: Any, count: int) -> Any:
        x, r = torch.randn(count, 3), 3.0 * torch.rand(count, 2)
        with torch.no_grad():
            return x, r, model.model(x.to(model.dtype), r.to(model.dtype)).to(x.dtype)


several = {"alternatives": 2, "costs": 2, "revenue_map": "piecewise_linear", **SMALL}
add(
    ConcaveTests,
    {
        "exponential costs": lambda: GCM(3, 2, concave=[0, 1], cost_family="laplace", **SMALL),
        "half-normal costs": lambda: GCM(3, 2, concave=[1], **several),
        "half-logistic costs": lambda: MemberGCM(3, 2, concave=[0], members=3, hidden=4),
    },
)


class GroupedTests(StoryTests):
    """Of the last column of x, the number of a group, nothing is a derivative."""

    test_gradients_are_finite_differences = None

    def rows(self, model: Any, count: int) -> Any:
        x, r, y = super().rows(model, count)
        x[:, -1] = torch.arange(count) % 5 - 1.0  # -1 is a group that was not seen
        return x, r, y


add(GroupedTests, {"hierarchical": lambda: HierarchicalGCM(3, 2, groups=4, **SMALL)})


# Stories of the guide


def of_the_guide() -> ModuleType:
    """A module with the classes of the page on stories."""
    page = Path(__file__).parents[2] / "docs" / "guides" / "stories.md"
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S))
    kept = (ast.Import, ast.ImportFrom, ast.ClassDef)
    body = [node for node in ast.parse(code).body if isinstance(node, kept)]
    module = sys.modules["stories_of_the_guide"] = ModuleType("stories_of_the_guide")
    exec(compile(ast.Module(body, []), str(page), "exec"), module.__dict__)
    return module


class GuideStoryTests(StoryTests):
    """The last column of x is the number of a group, if there are four."""

    test_a_second_device_gives_the_same_numbers = None  # they are written for the CPU

    def rows(self, model: Any, count: int) -> Any:
        self.x_dim, self.r_dim = model.x_dim, model.r_dim
        x, r, y = super().rows(model, count)
        if self.x_dim == 4:
            x[:, -1] = torch.arange(count) % 20
        return x, r, y


GUIDE = of_the_guide()
SIZES = {"Proxy": (2, 2), "Grouped": (4, 2), "Measured": (1, 1)}
STORIES = [
    k for k, v in vars(GUIDE).items() if isinstance(v, type) and issubclass(v, GCM) and v is not GCM
]
add(
    GuideStoryTests,
    {n: lambda n=n: getattr(GUIDE, n)(*SIZES.get(n, (3, 2)), **SMALL) for n in STORIES},
)
