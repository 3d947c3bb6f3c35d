"""The next trial: information against enumeration, Bayes' rule, order, and what is refused."""

from itertools import product

import numpy as np
import pytest
import torch

from pyro_gcm.decisions import Trials


def curves(s=40, n=7, seed=0):
    """Rising curves [S, n], and their probabilities [S]."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.random((s, n)), axis=1), rng.random(s)


def information(p, weights, batch):
    """Mutual information of the outcomes of a batch and the curve, outcome by outcome."""
    total = 0.0
    for outcome in product((0, 1), repeat=len(batch)):
        of = np.prod(
            [p[:, t] if y else 1 - p[:, t] for t, y in zip(batch, outcome, strict=True)], axis=0
        )
        total += (weights * of * np.log(of / (weights @ of))).sum()
    return total


def test_information_is_that_of_all_outcomes():
    p, weights = curves()
    trials = Trials(p, weights)
    weights = weights / weights.sum()
    single = np.array([information(p, weights, [t]) for t in range(7)])
    np.testing.assert_allclose(trials.information, single, rtol=1e-10)
    batch = trials.ask(3)
    for size in (1, 2, 3):  # each is the best addition to those before it
        of = [information(p, weights, [*batch[: size - 1], t]) for t in range(7)]
        assert of[batch[size - 1]] == pytest.approx(max(of), rel=1e-10)
    # About the kind of the curve: less what is learned about which curve of its kind it is.
    kind = np.arange(40) % 3
    of_kind = [Trials(p[kind == k], weights[kind == k]) for k in range(3)]
    share = [weights[kind == k].sum() for k in range(3)]
    lost = sum(w * each.information.numpy() for w, each in zip(share, of_kind, strict=True))
    np.testing.assert_allclose(Trials(p, weights, about=kind).information, single - lost, rtol=1e-9)
    two = Trials(p, weights, about=kind).ask(2)
    means = np.stack([each.mean.numpy() for each in of_kind])
    assert two[0] == int(np.argmax([information(means, np.array(share), [t]) for t in range(7)]))
    cost = np.arange(1.0, 8.0)
    assert trials.ask(cost=cost) == [int(np.argmax(single / cost))]
    assert trials.ask(allowed=[t == 6 for t in range(7)]) == [6]


def test_outcomes_change_the_weights_by_bayes_rule():
    p, weights = curves()
    trials = Trials(p, weights)
    for trial, outcome in ((2, True), (5, False), (2, False)):
        trials.tell(trial, outcome)
        weights = weights * (p[:, trial] if outcome else 1 - p[:, trial])
    np.testing.assert_allclose(trials.weights, weights / weights.sum(), rtol=1e-10)
    np.testing.assert_allclose(trials.mean, weights @ p / weights.sum(), rtol=1e-10)
    for _ in range(5000):  # far beyond the smallest float
        trials.tell(0, True)
    assert trials.weights.isfinite().all()
    assert trials.weights.argmax() == p[:, 0].argmax()


def test_the_mean_of_rising_curves_rises_between_neighbouring_floats():
    p = torch.from_numpy(curves(400, 1, seed=3)[0]).expand(-1, 300).clone()
    for step in range(1, 300):  # a random third of the curves rises by one float
        rises = torch.rand(400, generator=torch.Generator().manual_seed(step)) < 0.3
        above = torch.nextafter(p[:, step - 1], torch.tensor(2.0, dtype=torch.float64))
        p[:, step] = torch.where(rises, above, p[:, step - 1])
    assert (Trials(p.clamp(max=1.0)).mean.diff() >= 0).all()


def test_what_is_refused_is_named():
    trials = Trials([[0.0, 0.4], [0.0, 0.6]])
    for call, message in (
        (lambda: Trials([0.1, 0.2]), r"p must be probabilities \[S, n\]"),
        (lambda: Trials([[0.1, 1.2]]), r"p must be probabilities"),
        (lambda: Trials([[0.1]], [0.0]), r"weights must be \[1\]"),
        (lambda: Trials([[0.1]], about=[1, 2]), r"about must have shape \[1\]"),
        (lambda: trials.ask(11), "count must be at most 10, got 11"),
        (lambda: trials.ask(allowed=[False, False]), "allowed must have a True, got none"),
        (lambda: trials.ask(cost=[1.0, -2.0]), "cost must be finite and above 0, got -2.0"),
        (lambda: trials.ask(cost=[1.0]), r"cost must have shape \[2\]"),
        (lambda: trials.tell(2, True), "trial must be below 2.*got 2"),
        (lambda: trials.tell(0, 2), "outcome True or False, got 0 and 2"),
        (lambda: trials.tell(0, True), "outcome True of trial 0 has probability 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert trials.weights.tolist() == [0.5, 0.5]  # as before
