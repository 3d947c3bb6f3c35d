"""Ctrl-C stops a computation where nothing is half done."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyro
import pytest
import torch
import zoo

from pyro_gcm import GCM, fit
from pyro_gcm._utils import interrupts as interrupts
from pyro_gcm._utils.interrupts import interruption_point, shielded, unshielded

X, R, Y = zoo.rows(count=200).map(torch.Tensor.float)[:3]


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def the_handler_stays() -> Iterator[None]:
    # A process in the background of a shell ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    signal.signal(signal.SIGINT, before)
    assert interrupts._shield.handler is None
    assert not interrupts._shield.waiting


def test_an_interrupt_waits_for_a_point_an_end_or_another(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt), shielded(), shielded():  # noqa: PT012
        ctrl_c()
        done.append(1)
        interruption_point()
        done.append(2)
    with pytest.raises(KeyboardInterrupt), shielded():  # noqa: PT012
        ctrl_c()
        done.append(3)
    assert done == [1, 3]
    interruption_point()
    with pytest.raises(KeyboardInterrupt), shielded():  # noqa: PT012
        ctrl_c()
        ctrl_c()
        done.append(4)
        monkeypatch.setattr(interrupts, "_PATIENCE", 0.0)
        time.sleep(0.001)
        ctrl_c()  # after a while another one does not wait
        done.append(5)
    assert done == [1, 3, 4]


def test_code_of_the_user_is_interrupted_at_once() -> None:
    done: list[int] = []
    with shielded():
        with pytest.raises(KeyboardInterrupt), unshielded():  # noqa: PT012
            ctrl_c()
            done.append(1)
        done.append(2)
    assert done == [2]

    def callback(step: int) -> None:
        done.append(step)
        if step == 3:
            ctrl_c()
            done.append(-1)

    model = GCM(3, 2, hidden=4)
    with pytest.raises(KeyboardInterrupt):
        fit(model, X, R, Y, epochs=5, num_particles=2, progress=False, callback=callback)
    assert done == [2, 0, 1, 2, 3]


def test_handlers_of_the_user_and_other_threads_are_left_alone() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with shielded():
            ctrl_c()
            assert not seen
        assert seen == [signal.SIGINT]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with shielded():
            ctrl_c()
            interruption_point()
    finally:
        signal.signal(signal.SIGINT, before)

    def other() -> None:
        with shielded(), unshielded():
            interruption_point()
            assert signal.getsignal(signal.SIGINT) == before

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()


def test_where_no_handler_can_be_set_there_is_no_shield(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ValueError("signal only works in main thread of the main interpreter")

    done: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", refuse)
        with pytest.raises(KeyboardInterrupt), shielded():  # noqa: PT012
            ctrl_c()
            done.append(1)
    assert not done


def trained() -> GCM:
    model = GCM(3, 2, hidden=4, num_samples=32)
    fit(model, X, R, Y, epochs=3, batch_size=20, num_particles=2, progress=False)
    return model


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("seed", range(10))
def test_interrupts_at_random_leave_everything_as_it_was(seed: int) -> None:
    model, draw, stop = trained(), random.Random(seed), threading.Event()
    wanted = model.predict(X, R)
    work: list[Callable[[], Any]] = [
        lambda: [model.predict(X, R) for _ in range(5)],
        lambda: model.posterior(X[:20], R[:20], Y[:20], num_samples=200, progress=False),
        trained,
    ]
    armed, stopped = False, 0

    def raised(number: int, frame: Any) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    def send() -> None:
        while not stop.wait(draw.expovariate(200.0)):
            ctrl_c()

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGINT, raised)
    state = torch.get_rng_state()
    sender.start()
    try:
        for _ in range(60):
            try:
                try:
                    armed = True
                    draw.choice(work)()
                finally:
                    armed = False
            except KeyboardInterrupt:
                stopped += 1
            assert torch.equal(state, torch.get_rng_state())
            assert torch.is_grad_enabled()
            assert pyro.distributions.is_validation_enabled()
            assert not list(pyro.get_param_store().keys())
            assert all(part.training for part in model.modules())
    finally:
        stop.set()
        sender.join()
        signal.signal(signal.SIGINT, before)
    assert stopped > 10
    assert torch.equal(wanted, model.predict(X, R))
