"""Several threads of a process: each has the numbers that it has alone; nothing stays behind."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
import zoo
from pyro.infer import Trace_ELBO
from torch import Tensor, nn
from training_runs import same, weights

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm.estimators.plans import build_members
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.nets import Conditional

X, R, Y = zoo.rows(count=120).map(Tensor.float)[:3]
Results = dict[str, Any]


def members() -> Any:
    return build_members(MemberSettings(members=4, width=8, dropout=0.3), 3, 2)


def trained(make: Callable[[], Any], **options: Any) -> Callable[[], Results]:
    def run() -> Results:
        model = make()
        fit(model, X, R, Y, epochs=2, batch_size=30, progress=False, **options)
        return weights(model)

    return run


FITS: dict[str, Callable[[], Results]] = {
    "members": trained(members),
    "through Pyro": trained(lambda: GCM(3, 2, hidden=4), elbo=Trace_ELBO(2)),
    "validation": trained(lambda: GCM(3, 2, hidden=4), num_particles=4, validation=0.2, patience=1),
}
MODELS = {name: zoo.with_units(name, torch.float32) for name in ("plain", "members", "implicit")}
MODELS["seeded draws"] = GCM(3, 2, prior=Conditional(dist.StudentT, 3, (4,), 4), num_samples=8)
MODELS["seeded draws"].learn_units(X, R, Y)
QUIET: Any = {"seed": 3, "progress": False}
CALLS: dict[str, Callable[[Any], Results]] = {
    "predict": lambda model: {"p": model.predict(X, R)},
    "predict in float64": lambda model: {"p": model.predict(X.double(), R.double())},
    "surface": lambda model: {"p": model.surface(X[:9], R[:9])},
    "log_prob": lambda model: {"log_p": model.log_prob(X, R, Y)},
    "posterior": lambda model: dict(model.posterior(X[:9], R[:9], Y[:9], num_samples=20, **QUIET)),
    "simulate": lambda model: model.simulate(
        x=X[:9], **({} if isinstance(model, IGCM) else {"r": R[:9]}), seed=4
    ),
    "a new model": lambda model: weights(type(model)(3, 2, hidden=4, seed=8)),
}


def process_state() -> tuple[Any, ...]:
    """What torch and Pyro keep once for the process."""
    return (
        torch.get_rng_state().tolist(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        pyro.distributions.Normal._validate_args,
        pyro.poutine.runtime._PYRO_STACK == [],
        sorted(pyro.get_param_store().keys()),
        torch.is_grad_enabled(),
    )


def together(tasks: list[Callable[[], Any]], threads: int) -> list[Any]:
    """Results of the tasks, from threads that all begin at once."""
    barrier = threading.Barrier(threads)

    def work(share: list[int]) -> list[tuple[int, Any]]:
        barrier.wait()
        return [(number, tasks[number]()) for number in share]

    shares = [list(range(len(tasks)))[i::threads] for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        pairs = itertools.chain.from_iterable(pool.map(work, shares))
    return [result for _, result in sorted(pairs, key=lambda pair: pair[0])]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("kind", MODELS)
def test_predictions_posteriors_and_fits_in_threads_give_the_numbers_that_they_give_alone(
    kind: str,
) -> None:
    model = MODELS[kind]
    tasks = FITS | {name: (lambda call=call: call(model)) for name, call in CALLS.items()}
    pyro.get_param_store()["mine"] = torch.ones(2)
    before = process_state()
    alone = {name: task() for name, task in tasks.items()}
    names = random.Random(1).sample([*CALLS, *CALLS, *CALLS, *FITS, *FITS], 27)
    for name, result in zip(names, together([tasks[n] for n in names], 5), strict=True):
        assert same(alone[name], result), name
    assert process_state() == before


def test_predictions_depend_on_nothing_that_the_process_keeps() -> None:
    for kind, model in MODELS.items():
        names = ["predict", "predict in float64", "surface", "log_prob"]
        before = {name: CALLS[name](model) for name in names}
        with zoo.default_dtype(torch.float64), pyro.validation_enabled(False):
            for name in names:
                assert same(CALLS[name](model), before[name]), (kind, name)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_every_part_is_in_evaluation_mode_and_gets_its_mode_back() -> None:
    scripted = torch.jit.script(nn.Dropout(0.9))
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)), scripted, nn.Dropout(0.5))
    net[1].eval()
    before = [part.training for part in net.modules()]
    first, second = evaluating(net), evaluating(net[3])
    with pytest.raises(KeyError), first:  # noqa: PT012
        assert not any(part.training for part in net.modules())
        assert torch.equal(scripted(torch.ones(50)), torch.ones(50))
        second.__enter__()
        raise KeyError
    assert not net[3].training  # a prediction of another thread has not ended
    assert net.training
    second.__exit__(None, None, None)
    assert [part.training for part in net.modules()] == before
