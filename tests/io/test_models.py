"""Every model that names can make comes back as it was, and predicts the same to the last bit."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from saved_models import NAMES, computed, model_and_rows
from torch import Tensor, nn

import pyro_gcm
from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.distributions import families, register_cost_family
from pyro_gcm.io import DamagedFile, MissingPart
from pyro_gcm.models import MemberGCM
from pyro_gcm.nets import AmortizedGuide, Conditional, MemberEncoder, PosteriorGuide


def equal(mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return mine.keys() == theirs.keys() and all(
        value.dtype == theirs[name].dtype
        and torch.equal(value.nan_to_num(7.0), theirs[name].nan_to_num(7.0))
        for name, value in mine.items()
    )


@pytest.mark.long(keep=10)
@pytest.mark.parametrize("name", NAMES)
def test_a_model_comes_back_to_the_last_bit(name: str, tmp_path: Path) -> None:
    model, rows = model_and_rows(name)
    state = torch.get_rng_state()
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    assert torch.equal(torch.get_rng_state(), state)
    assert type(loaded) is type(model)
    assert equal(model.state_dict(), loaded.state_dict())
    assert loaded.objective == model.objective
    assert loaded.name != model.name  # a name that nobody chose stays unique
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        loaded.predict(*(part[:3] for part in rows[:2]))  # it was fitted
    assert equal(computed(model, rows), computed(loaded, rows))


def test_a_loaded_model_is_trained_on_as_the_saved_one(tmp_path: Path) -> None:
    model, rows = model_and_rows("built members, binary")
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    for one in (model, loaded):
        fit(one, *rows, epochs=2, progress=False)
    assert equal(model.state_dict(), loaded.state_dict())


def test_how_it_was_trained_is_kept(tmp_path: Path) -> None:
    model, rows = model_and_rows("plain")
    result = fit(model, *rows, epochs=2, validation=0.25, seed=4, progress=False)
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    assert loaded.training_summary == model.training_summary
    known = {"rows": 48, "validation_rows": 16, "loss": result.rows[-1]["loss"], "seed": 4}
    assert known.items() <= loaded.training_summary.items()
    assert GCM(1, 1).training_summary is None


def test_names_frozen_parameters_shared_modules_and_no_fit_are_kept(tmp_path: Path) -> None:
    net = Conditional(dist.Normal, 2, (4,))
    model = GCM(2, 1, name="bids", prior=net, guide=AmortizedGuide(net))
    model.z_prior.requires_grad_(False)
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    assert loaded.name == "bids"
    assert loaded.z_guide.q_z is loaded.z_prior
    assert loaded.trained_parameters().keys() == model.trained_parameters().keys()
    with pytest.warns(UserWarning, match="has not been fitted"):
        loaded.predict(torch.zeros(1, 2), torch.zeros(1, 1))
    again = copy.deepcopy(model)
    assert pyro_gcm.load(pyro_gcm.save(again, tmp_path / "copy")).name == again.name != "bids"


@pytest.mark.parametrize("default", [torch.float32, torch.float64])
@pytest.mark.parametrize("how", ["float", "double", "mixed", "built as float64"])
def test_types_are_kept_with_any_default(how: str, default: torch.dtype, tmp_path: Path) -> None:
    kind = "sigmoid and laplace costs" if how == "built as float64" else "plain"
    model, rows = model_and_rows(kind)
    if how == "double":
        model.double()
    if how == "mixed":
        model.r_standardizer.double()
    wanted = computed(model, rows)
    pyro_gcm.save(model, tmp_path / "saved")
    torch.set_default_dtype(default)
    try:
        loaded = pyro_gcm.load(tmp_path / "saved")
        longer = loaded.base_samples(500)
    finally:
        torch.set_default_dtype(torch.float32)
    assert equal(computed(loaded, rows), wanted)
    assert torch.equal(longer, model.base_samples(500))


@pytest.mark.parametrize("through", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_can_be_saved(through: Any, tmp_path: Path) -> None:
    model, rows = model_and_rows("built members, quantile")
    loaded = pyro_gcm.load(pyro_gcm.save(through(model), tmp_path / "saved"))
    assert equal(computed(model, rows), computed(loaded, rows))


def test_modules_of_the_library_are_rebuilt_with_their_arguments(tmp_path: Path) -> None:
    prior = Conditional(dist.Laplace, 2, (5,), hidden=[7, 6])
    guide = PosteriorGuide(Conditional(dist.Normal, 2 + 3 + 1, (5,), hidden=()))
    parts = {"cost_family": dist.Logistic, "revenue_map": nn.Identity()}
    model = GCM(2, 3, prior=prior, z_dim=5, guide=guide, **parts)
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    assert repr(loaded) == repr(model)
    assert loaded.z_prior.family is dist.Laplace
    assert loaded.cost_net.family is dist.Logistic
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
    transform = dist.transforms.ExpTransform()
    model = GCM(2, 1, cost_family=Outside(), revenue_map=transform)
    factories = {"cost_family": Outside, "revenue_map": lambda: transform}
    folder = pyro_gcm.save(model, tmp_path / "saved", factories=factories)
    loaded = pyro_gcm.load(folder, factories=factories)
    assert equal(model.state_dict(), loaded.state_dict())
    x, r = torch.randn(5, 2), torch.randn(5, 1)
    assert torch.equal(loaded.predict(x, r), model.predict(x, r))

    def load_with(**changed: Any) -> None:
        pyro_gcm.load(folder, factories={**factories, **changed})

    with pytest.raises(MissingPart, match="revenue_map is a ExpTransform from outside"):
        pyro_gcm.load(folder, factories={"cost_family": Outside})
    with pytest.raises(MissingPart, match="factories has 'costs'"):
        load_with(costs=Outside)
    with pytest.raises(MissingPart, match=r"factories\['cost_family'\] must return a Outside"):
        load_with(cost_family=lambda: nn.Linear(4, 2))
    with pytest.raises(MissingPart, match=r"factories\['cost_family'\] raised ZeroDivisionError"):
        load_with(cost_family=lambda: 1 / 0)
    with pytest.raises(DamagedFile, match="size mismatch for cost_net"):
        load_with(cost_family=lambda: Outside(5))
    factories["cost_family"] = lambda: Outside(5)
    with pytest.raises(ValueError, match="size mismatch for cost_net"):
        pyro_gcm.save(model, tmp_path / "b", factories=factories)
    model = GCM(2, 1)
    model.cost_net = Outside()  # an exchanged part
    with pytest.raises(ValueError, match="cost_net"):
        pyro_gcm.save(model, tmp_path / "c")


def test_a_factory_serves_a_part_inside_another(tmp_path: Path) -> None:
    class Own(Conditional):
        pass

    def make() -> Own:
        return Own(dist.Normal, 2, (4,))

    factories = {"guide.q_z": make}
    model = GCM(2, 1, guide=AmortizedGuide(make()))
    folder = pyro_gcm.save(model, tmp_path / "saved", factories=factories)
    loaded = pyro_gcm.load(folder, factories=factories)
    assert type(loaded.z_guide.q_z) is Own
    assert equal(model.state_dict(), loaded.state_dict())


def test_an_own_family_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("kind", [GCM, IGCM])
@pytest.mark.parametrize("seed", [5, (1 << 64) - 2])
def test_the_seed_of_predictions_belongs_to_the_state(kind: Any, seed: int) -> None:
    model, other = kind(3, 2, seed=seed), kind(3, 2, seed=6)
    x, r = torch.randn(40, 3), torch.randn(40, 2)
    other.load_state_dict(model.state_dict())
    assert other.seed == model.seed == seed
    for draws in (None, 1024):
        mine, theirs = (one.predict(x, r, num_samples=draws) for one in (model, other))
        assert torch.equal(mine, theirs)
