"""A model comes back as it was, and predicts the same to the last bit, in any process.

The kit for parts saves and loads every kind of the zoo. Here is what a file keeps besides.
"""

from __future__ import annotations

import copy
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyro.distributions as dist
import pytest
import torch
import zoo
from torch import Tensor, nn

import pyro_gcm
from pyro_gcm import GCM, fit
from pyro_gcm.distributions import families, register_cost_family
from pyro_gcm.estimators.plans import build_members
from pyro_gcm.io import DamagedFile, MissingPart
from pyro_gcm.models import MemberGCM
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.nets import AmortizedGuide, Conditional, MemberEncoder, PosteriorGuide

#: Settings of members that are not those by default.
SETTINGS = {
    "built, binary": MemberSettings(members=3, width=8, bins=4, knots=5, dropout=0.2),
    "built, continuous": MemberSettings(members=2, width=8, bins=0, scaling="output"),
    "built, by likelihood": MemberSettings(members=2, width=8, bins=3, equal_weights=False),
    "built, quantile": MemberSettings(members=2, width=8, bins=3, steps=0.0, flat=True),
}
#: Models that differ in what a file keeps; the first ones are loaded in another process, too.
NAMES = ["flow prior", "implicit", "built, binary", "joint", "survival, cured", *SETTINGS]


def model_and_rows(name: str) -> tuple[Any, zoo.Rows]:
    """A model that has learned the units of its rows, with random weights, and its rows."""
    if name in zoo.KINDS:
        dtype = torch.float64 if name == "sigmoid and laplace costs" else torch.float32
        return zoo.with_units(name, dtype), zoo.rows_of(name, dtype=dtype)
    response = {"binary": "binary", "quantile": "quantile"}.get(name[7:], "continuous")
    columns = zoo.rows(response).map(Tensor.float)
    options: Any = {"response": response, "ordered": [[0, 2]], "seed": 7}
    model = build_members(SETTINGS[name], 3, columns.r.shape[1], **options)
    model.learn_units(*columns[:3])
    model.objective = model.default_objective
    return model, columns


def computed(model: Any, rows: zoo.Rows) -> dict[str, Tensor]:
    """What depends on the weights, at several numbers of draws."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # categorical z and effective sample sizes
        values = zoo.predictions(model, rows)
    for draws in (3, 500):
        values[str(draws)] = model.predict(rows.x[:40], rows.r[:40], num_samples=draws)
    return values


def equal(mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return mine.keys() == theirs.keys() and all(
        value.dtype == theirs[name].dtype
        and torch.equal(value.nan_to_num(7.0), theirs[name].nan_to_num(7.0))
        for name, value in mine.items()
    )


def test_models_come_back_to_the_last_bit(tmp_path: Path) -> None:
    for name in dict.fromkeys(NAMES):
        model, rows = model_and_rows(name)
        state = torch.get_rng_state()
        loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / name))
        assert torch.equal(torch.get_rng_state(), state), name
        assert type(loaded) is type(model)
        assert equal(model.state_dict(), loaded.state_dict()), name
        assert loaded.objective == model.objective
        assert loaded.name != model.name  # a name that nobody chose stays unique
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            loaded.predict(*(part[:3] for part in rows[:2]))  # it was fitted
        assert equal(computed(model, rows), computed(loaded, rows)), name


def _loaded_and_computed(folder: Path, threads: int) -> dict[str, dict[str, Tensor]]:
    torch.set_num_threads(threads)
    return {
        name: computed(pyro_gcm.load(folder / name), model_and_rows(name)[1]) for name in NAMES[:3]
    }


@pytest.mark.long(keep=0)
def test_another_process_with_more_threads_predicts_the_same_bits(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--as-on-another-processor"):
        pytest.skip("a process that is started rounds as this processor does")
    for name in NAMES[:3]:
        pyro_gcm.save(model_and_rows(name)[0], tmp_path / name)
    wanted = _loaded_and_computed(tmp_path, torch.get_num_threads())
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        theirs = pool.submit(_loaded_and_computed, tmp_path, 3).result()
    for name, values in wanted.items():
        assert equal(theirs[name], values), name


def test_a_loaded_model_is_trained_on_as_the_saved_one(tmp_path: Path) -> None:
    model, rows = model_and_rows("built, binary")
    result = fit(model, *rows, epochs=2, validation=0.25, seed=4, progress=False)
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    assert loaded.training_summary == model.training_summary
    known = {"rows": 48, "validation_rows": 16, "loss": result.rows[-1]["loss"], "seed": 4}
    assert known.items() <= loaded.training_summary.items()
    for one in (model, loaded):
        fit(one, *rows, epochs=2, progress=False)
    assert equal(model.state_dict(), loaded.state_dict())


def test_names_frozen_parameters_shared_modules_and_no_fit_are_kept(tmp_path: Path) -> None:
    net = Conditional(dist.Normal, 2, (4,))
    model = GCM(2, 1, name="bids", prior=net, guide=AmortizedGuide(net))
    model.z_prior.requires_grad_(False)
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    assert loaded.name == "bids"
    assert loaded.training_summary is None
    assert loaded.z_guide.q_z is loaded.z_prior
    assert loaded.trained_parameters().keys() == model.trained_parameters().keys()
    with pytest.warns(UserWarning, match="has not been fitted"):
        loaded.predict(torch.zeros(1, 2), torch.zeros(1, 1))
    again = copy.deepcopy(model)
    assert pyro_gcm.load(pyro_gcm.save(again, tmp_path / "copy")).name == again.name != "bids"


def test_types_are_kept_with_any_default(tmp_path: Path) -> None:
    for how in ("float", "double", "mixed", "built as float64"):
        kind = "sigmoid and laplace costs" if how == "built as float64" else "plain"
        model, rows = model_and_rows(kind)
        if how == "double":
            model.double()
        if how == "mixed":
            model.r_standardizer.double()
        wanted = computed(model, rows)
        pyro_gcm.save(model, tmp_path / how)
        for default in (torch.float32, torch.float64):
            with zoo.default_dtype(default):
                loaded = pyro_gcm.load(tmp_path / how)
                longer = loaded.base_samples(500)
            assert equal(computed(loaded, rows), wanted), (how, default)
            assert torch.equal(longer, model.base_samples(500)), (how, default)


def test_modules_of_the_library_are_rebuilt_with_their_arguments(tmp_path: Path) -> None:
    prior = Conditional(dist.Laplace, 2, (5,), hidden=[7, 6])
    guide = PosteriorGuide(Conditional(dist.Normal, 2 + 3 + 1, (5,), hidden=()))
    parts = {"cost_family": dist.Logistic, "revenue_map": nn.Identity()}
    model = GCM(2, 3, prior=prior, z_dim=5, guide=guide, **parts)
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    assert repr(loaded) == repr(model)
    assert (loaded.z_prior.family, loaded.cost_net.family) == (dist.Laplace, dist.Logistic)
    members = MemberGCM(3, 1, members=MemberEncoder(3, 2, [5], dropout=0.25))
    assert repr(pyro_gcm.load(pyro_gcm.save(members, tmp_path / "members"))) == repr(members)


class Outside(nn.Module):
    """Costs from a network that the library does not know."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, 2)

    def forward(self, z: Tensor) -> Any:
        loc, raw = self.second(self.first(z)).split(1, -1)
        return dist.Normal(loc, raw.exp()).to_event(1)


def test_a_part_from_outside_is_refused_by_the_name_of_its_argument(tmp_path: Path) -> None:
    transform = dist.transforms.ExpTransform()
    for model, message in (
        (GCM(2, 1, cost_family=Outside()), r"cost_family is a Outside.*={'cost_family': ma"),
        (AmortizedGuide(nn.Module()), "q_z is a Module from outside"),
        (GCM(2, 1, revenue_map=transform), "revenue_map is a ExpTransform from outside"),
        (type("Mine", (GCM,), {})(2, 1), "got Mine"),
    ):
        with pytest.raises(TypeError, match=message):
            pyro_gcm.save(model, tmp_path / "saved")
    assert not list(tmp_path.iterdir())


def test_a_factory_makes_what_comes_from_outside(tmp_path: Path) -> None:
    class Inside(Conditional):
        pass

    factories: dict[str, Any] = {
        "cost_family": Outside,
        "revenue_map": dist.transforms.ExpTransform,
        "guide.q_z": lambda: Inside(dist.Normal, 2, (4,)),
    }
    parts = {name: factories[name]() for name in ("cost_family", "revenue_map")}
    model = GCM(2, 1, **parts, guide=AmortizedGuide(factories["guide.q_z"]()))
    folder = pyro_gcm.save(model, tmp_path / "saved", factories=factories)
    loaded = pyro_gcm.load(folder, factories=factories)
    assert type(loaded.z_guide.q_z) is Inside
    assert equal(model.state_dict(), loaded.state_dict())
    x, r = torch.randn(5, 2), torch.randn(5, 1)
    assert torch.equal(loaded.predict(x, r), model.predict(x, r))

    without_map = {name: make for name, make in factories.items() if name != "revenue_map"}
    costs = r"factories\['cost_family'\]"
    for given, error, message in (
        (without_map, MissingPart, "revenue_map is a ExpTransform from outside"),
        (factories | {"costs": Outside}, MissingPart, "factories has 'costs'"),
        (factories | {"cost_family": lambda: nn.Linear(4, 2)}, MissingPart, f"{costs} must return"),
        (factories | {"cost_family": lambda: 1 / 0}, MissingPart, f"{costs} raised ZeroDiv"),
        (factories | {"cost_family": lambda: Outside(5)}, DamagedFile, "size mismatch for cost_ne"),
    ):
        with pytest.raises(error, match=message):
            pyro_gcm.load(folder, factories=given)
    factories["cost_family"] = lambda: Outside(5)
    with pytest.raises(ValueError, match="size mismatch for cost_net"):
        pyro_gcm.save(model, tmp_path / "b", factories=factories)
    model = GCM(2, 1)
    model.cost_net = Outside()  # an exchanged part
    with pytest.raises(ValueError, match="cost_net"):
        pyro_gcm.save(model, tmp_path / "c")


def test_a_registered_family_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in ("_FAMILIES", "_NAMES"):
        monkeypatch.setattr(families, store, dict(getattr(families, store)))

    def log_cdf(d: Any, value: Tensor) -> Tensor:
        return d.cdf(value).log()

    def log_survival(d: Any, value: Tensor) -> Tensor:
        return (1.0 - d.cdf(value)).log()

    register_cost_family(dist.Cauchy, log_cdf, log_survival, name="cauchy")
    pyro_gcm.save(GCM(2, 1, cost_family="cauchy"), tmp_path / "saved")
    assert pyro_gcm.load(tmp_path / "saved").cost_net.family is dist.Cauchy
    monkeypatch.setattr(families, "_NAMES", {})
    with pytest.raises(MissingPart, match="call register_cost_family before load"):
        pyro_gcm.load(tmp_path / "saved")
