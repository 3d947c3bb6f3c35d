"""Products of predictions run on one thread; all else keeps the threads that it had."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch.nn.functional import linear

from pyro_gcm import GCM
from pyro_gcm.sampling.base_samples import BatchInvariantProducts
from pyro_gcm.sampling.one_thread import one_thread


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("prior", ["conditional", "members"])
def test_predictions_do_not_depend_on_the_number_of_threads(prior: str) -> None:
    model, x, r = GCM(3, 2, prior=prior), torch.randn(100, 3), torch.randn(100, 2)
    found = []
    for count in (1, 3):
        torch.set_num_threads(count)
        found.append(torch.cat([model.predict(x, r), model.surface(x[:50], r[:20]).flatten()]))
        assert torch.get_num_threads() == count
    assert torch.equal(found[0], found[1])


def test_only_products_run_on_one_thread() -> None:
    torch.set_num_threads(3)
    counts = []

    class Noting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            counts.append((func, torch.get_num_threads()))
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Noting(), BatchInvariantProducts():
        linear(torch.ones(3, 16).exp(), torch.ones(2, 16))
    assert (torch.Tensor.exp, 3) in counts
    assert (linear, 1) in counts


def test_the_number_of_threads_survives_concurrent_products() -> None:
    torch.set_num_threads(3)
    left = threading.Barrier(4)

    def work() -> None:
        for _ in range(200):
            with one_thread():
                assert torch.get_num_threads() in (1, 3)
        left.wait()
        seen.append(torch.get_num_threads())

    seen: list[int] = []
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [3, 3, 3, 3]
    assert torch.get_num_threads() == 3


def test_an_error_inside_gives_the_threads_back() -> None:
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert torch.get_num_threads() == 2
