"""Several threads of a process: each has the numbers that it has alone; nothing stays behind."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
import zoo
from pyro.infer import Trace_ELBO
from torch import Tensor, nn
from training_runs import weights

from pyro_gcm import GCM, IGCM, baselines, fit
from pyro_gcm._utils.torch_state import Randomness, evaluating, exclusively
from pyro_gcm.diagnostics import importance_diagnostics
from pyro_gcm.members import MemberSettings, build_members
from pyro_gcm.nets import Conditional

X, R, Y = zoo.rows(count=120).map(Tensor.float)[:3]
QUICK: Any = {"epochs": 2, "batch_size": 30, "progress": False}
Results = dict[str, Any]


def trained(make: Callable[[], Any], **options: Any) -> Callable[[], Results]:
    def run() -> Results:
        model = make()
        data = (X, R, Y) if model.dtype == torch.float32 else (X.double(), R.double(), Y.double())
        result = fit(model, *data, **({**QUICK, **options}))
        return {**weights(model), "loss": result.history["loss"].to_numpy()}

    return run


def trained_baseline() -> Results:
    with Randomness(0).in_use():
        model = baselines.MLP(3, 2, hidden=4)
    baselines.fit(model, X, R, Y, **QUICK)
    return weights(model)


def members() -> GCM:
    return build_members(MemberSettings(members=4, width=8, dropout=0.3), 3, 2)


FITS: dict[str, Callable[[], Results]] = {
    "sampled": trained(lambda: GCM(3, 2, hidden=4), num_particles=4),
    "through Pyro": trained(lambda: GCM(3, 2, hidden=4), elbo=Trace_ELBO(2)),
    "Renyi": trained(lambda: GCM(3, 2, hidden=4), num_particles=2, elbo="renyi"),
    "validation": trained(lambda: GCM(3, 2, hidden=4), num_particles=4, validation=0.2, patience=1),
    "members": trained(members),
    "IGCM": trained(lambda: IGCM(3, 2, hidden=4), num_particles=4),
    "baseline": trained_baseline,
}

MODELS = {
    "sampled": GCM(3, 2, hidden=4, num_samples=16),
    "members": members(),
    "IGCM": IGCM(3, 2, hidden=4, num_samples=16),
    "seeded draws": GCM(3, 2, prior=Conditional(dist.StudentT, 3, (4,), 4), num_samples=8),
}
for _model in MODELS.values():
    _model.learn_units(X, R, Y)


def posterior(model: Any) -> Results:
    return dict(model.posterior(X[:9], R[:9], Y[:9], num_samples=20, seed=3, progress=False))


CALLS: dict[str, Callable[[Any], Any]] = {
    "predict": lambda model: model.predict(X, R),
    "predict in float64": lambda model: model.predict(X.double(), R.double()),
    "more draws": lambda model: model.predict(X[:40], R[:40], num_samples=64),
    "surface": lambda model: model.surface(X[:9], R[:9]),
    "log_prob": lambda model: model.log_prob(X, R, Y),
    "posterior": posterior,
    "cost_posterior": lambda model: dict(
        model.cost_posterior(X[:5], R[:5], Y[:5], num_samples=9, seed=1, progress=False)
    ),
    "simulate": lambda model: (
        model.simulate(x=X[:9], seed=4)
        if isinstance(model, IGCM)
        else model.simulate(x=X[:9], r=R[:9], seed=4)
    ),
    "importance": lambda model: importance_diagnostics(
        model, X[:9], R[:9], Y[:9], num_particles=50, progress=False
    ),
    "a new model": lambda model: weights(type(model)(3, 2, hidden=4, seed=8)),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and bool(torch.eq(a, b).logical_or(a.isnan() & b.isnan()).all())
    return bool(a.equals(b)) if isinstance(a, pd.DataFrame) else bool((a == b).all())


@pytest.fixture
def globals_stay() -> Iterator[None]:
    """What torch and Pyro keep once for the process is the same afterwards."""
    pyro.get_param_store()["mine"] = torch.ones(2)

    def state() -> tuple[Any, ...]:
        return (
            torch.get_rng_state().tolist(),
            torch.get_default_dtype(),
            torch.get_num_threads(),
            pyro.distributions.Normal._validate_args,
            pyro.poutine.runtime._PYRO_STACK == [],
            sorted(pyro.get_param_store().keys()),
            torch.is_grad_enabled(),
        )

    before = state()
    yield
    assert state() == before


def together(tasks: list[Callable[[], Any]], threads: int) -> list[Any]:
    """Results of the tasks, from threads that all begin at once."""
    barrier = threading.Barrier(threads)

    def work(own: list[int]) -> list[tuple[int, Any]]:
        barrier.wait()
        return [(number, tasks[number]()) for number in own]

    shares = [list(range(len(tasks)))[i::threads] for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        pairs = itertools.chain.from_iterable(pool.map(work, shares))
    return [result for _, result in sorted(pairs, key=lambda pair: pair[0])]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("order", range(4))
def test_fits_in_threads_give_the_numbers_of_fits_alone(order: int, globals_stay: None) -> None:
    alone = {name: run() for name, run in FITS.items()}
    names = random.Random(order).sample(list(FITS), len(FITS))
    for name, found in zip(names, together([FITS[name] for name in names], 4), strict=True):
        assert same(alone[name], found), name


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("kind", MODELS)
def test_predictions_and_posteriors_beside_fits_give_the_numbers_that_they_give_alone(
    kind: str, globals_stay: None
) -> None:
    calls = {
        call: lambda call=call: CALLS[call](MODELS[kind])  # type: ignore[misc]
        for call in CALLS
        if not (kind == "members" and call == "more draws")
    }
    fits = {name: FITS[name] for name in ("members", "through Pyro", "sampled")}
    alone = {name: run() for name, run in (calls | fits).items()}
    names = random.Random(1).sample([*calls, *calls, *calls, *fits], 3 * len(calls) + len(fits))
    found = together([(calls | fits)[name] for name in names], 5)
    for name, result in zip(names, found, strict=True):
        assert same(alone[name], result), name


def test_dropout_stays_off_until_the_last_prediction_has_ended() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    first, second = evaluating(model), evaluating(model[1])
    with first:
        second.__enter__()
    assert not model[1].training
    assert model[0].training
    second.__exit__(None, None, None)
    assert all(part.training for part in model.modules())


def modes(module: nn.Module) -> list[bool]:
    return [part.training for part in module.modules()]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", ["plain", "scripted"])
def test_every_part_is_in_evaluation_mode_and_gets_its_own_mode_back(kind: str) -> None:
    part: nn.Module = nn.Dropout(0.9)
    if kind == "scripted":
        part = torch.jit.script(part)
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)), part, nn.BatchNorm1d(2))
    net[1].eval()
    before = modes(net)
    with pytest.raises(KeyError), evaluating(net):  # noqa: PT012
        assert not any(modes(net))
        if kind == "scripted":
            assert torch.equal(part(torch.ones(50)), torch.ones(50))
        raise KeyError
    assert modes(net) == before
    net.eval()
    with evaluating(net):
        assert not any(modes(net))
    assert not any(modes(net))


@pytest.mark.parametrize("kind", MODELS)
def test_predictions_depend_on_nothing_that_the_process_keeps(kind: str) -> None:
    model = MODELS[kind]
    names = ["predict", "predict in float64", "surface", "log_prob"]
    names += [] if kind == "members" else ["more draws"]
    before = {name: CALLS[name](model) for name in names}
    torch.set_default_dtype(torch.float64)
    try:
        with pyro.validation_enabled(False):
            after = {name: CALLS[name](model) for name in names}
    finally:
        torch.set_default_dtype(torch.float32)
    assert same(before, after)


def test_one_thread_is_inside_at_a_time_and_an_error_gives_the_turn_back() -> None:
    turns: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            try:
                with exclusively(), exclusively():
                    turns.append(number)
                    if len(turns) % 3 == 0:
                        raise KeyError
            except KeyError:
                pass

    together([lambda number=number: work(number) for number in range(3)], 3)  # type: ignore[misc]
    assert sorted(turns) == [0] * 200 + [1] * 200 + [2] * 200
