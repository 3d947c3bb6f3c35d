"""The trial that tells most about a curve, of which a finite number are possible."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, as_tensor, positive_int, shown

#: A batch is chosen under all of its 2^k outcomes.
_LARGEST_BATCH = 10


class Trials:
    """Choose experiments one after the other: ask for the next trial, tell its outcome.

    The truth is one of S curves, each of which says the probability of an event in each of n
    trials that are possible: a dose for a kind of patient, a stimulus, a price. Outcomes change the
    probabilities of the curves by Bayes' rule. `ask` returns the trial with the largest mutual
    information between its outcome and the curve: the entropy of the mean probability less the mean
    entropy, which is exact for a finite number of curves (Lindley 1956; the rule of QUEST+, Watson
    2017, which has it for parameters on a grid).

    Curves are draws of weights (`predict_draws` of `inference.bayesian`), curves of a parametric
    family on a grid, or random curves of a prior.

    :param p: probabilities of the event, [S, n].
    :param weights: probability of each curve before the first trial, up to a factor, [S]; equal by
        default.
    :param about: what is to be known, a value for each curve, [S], such as the first dose at which
        it reaches a half; information is then about that value alone. The curve by default.
    :raises ValueError: for numbers that are no probabilities, or a wrong shape.

    >>> trials = Trials([[0.1, 0.5, 0.9], [0.1, 0.1, 0.9]])
    >>> trials.ask()
    [1]
    >>> trials.tell(1, True)
    >>> [round(weight, 4) for weight in trials.weights.tolist()]
    [0.8333, 0.1667]
    """

    def __init__(
        self, p: ArrayLike, weights: ArrayLike | None = None, *, about: ArrayLike | None = None
    ) -> None:
        self.p = as_tensor("p", p).detach().double()
        if self.p.dim() != 2 or not self.p.numel() or not ((self.p >= 0) & (self.p <= 1)).all():
            raise ValueError(f"p must be probabilities [S, n], got {shown(self.p)}")
        given = torch.ones(len(self.p)) if weights is None else as_tensor("weights", weights)
        prior = given.detach().double().to(self.p.device)
        positive = prior.shape == self.p.shape[:1] and prior.isfinite().all() and (prior >= 0).all()
        if not positive or prior.sum() == 0:
            wanted = f"weights must be [{len(self.p)}] numbers of at least 0, not all of them 0"
            raise ValueError(f"{wanted}, got {shown(given)}")
        self._log_weights = prior.log()
        self._alike: list[Tensor] | None = None  # indices of the curves with each value
        if about is not None:
            value = as_tensor("about", about)
            if value.shape != prior.shape:
                raise ValueError(f"about must have shape [{len(self.p)}], got {shown(about)}")
            place = value.to(self.p.device).unique(return_inverse=True)[1]
            self._alike = [(place == each).nonzero()[:, 0] for each in range(int(place.max()) + 1)]

    @property
    def weights(self) -> Tensor:
        """Probability of each curve, given the outcomes so far, [S]."""
        return self._log_weights.softmax(0)

    @property
    def mean(self) -> Tensor:
        """Probability of the event in each trial, [n]; where all curves rise, it rises."""
        return (self.weights[:, None] * self.p).sum(0)  # column for column in the same order

    @property
    def information(self) -> Tensor:
        """Mutual information of the outcome of each trial and what is to be known, [n], in nats."""
        return self._gained(self.p.new_ones(len(self.p), 1))

    def ask(
        self, count: int = 1, *, allowed: ArrayLike | None = None, cost: ArrayLike | None = None
    ) -> list[int]:
        """The indices of the next trials.

        :param count: of trials whose outcomes come together, at most 10; each is the one that adds
            most to those before it, which is within 1 - 1/e of the best batch (Nemhauser 1978). A
            trial may be repeated.
        :param allowed: which trials may be chosen, [n], such as doses that are safe:
            `trials.weights @ (trials.p > 0.3).double() < 0.25`.
        :param cost: of each trial, [n], above 0: then the information a unit of cost counts.
        :raises ValueError: for a wrong shape or cost, and where no trial is allowed.
        """
        if positive_int("count", count) > _LARGEST_BATCH:
            raise ValueError(f"count must be at most {_LARGEST_BATCH}, got {count}")
        may = self._of_trials("allowed", True if allowed is None else allowed).bool()
        price = self._of_trials("cost", 1.0 if cost is None else cost).double()
        if not may.any():
            raise ValueError("allowed must have a True, got none")
        if not (fine := (price > 0) & price.isfinite()).all():
            raise ValueError(f"cost must be finite and above 0, got {price[~fine][0].item()}")
        chosen: list[int] = []
        outcomes = self.p.new_ones(len(self.p), 1)  # probability of each outcome of the batch
        for _ in range(count):
            gained = (self._gained(outcomes) / price).masked_fill(~may, -torch.inf)
            chosen.append(int(gained.argmax()))
            p = self.p[:, chosen[-1:]]
            outcomes = torch.cat([outcomes * p, outcomes * (1.0 - p)], 1)
        return chosen

    def tell(self, trial: int, outcome: bool) -> None:
        """Learn the outcome of a trial.

        :param trial: its index; `outcome`: whether the event came.
        :raises ValueError: for another index or outcome, or one that is impossible for all curves.
        """
        if trial not in range(self.p.shape[1]) or outcome not in (0, 1):
            wanted = f"trial must be below {self.p.shape[1]}, and outcome True or False"
            raise ValueError(f"{wanted}, got {trial} and {outcome}")
        p = self.p[:, trial]
        told = self._log_weights + (p if outcome else 1.0 - p).log()
        if not told.max() > -torch.inf:
            raise ValueError(f"outcome {outcome} of trial {trial} has probability 0 in all curves")
        self._log_weights = told - told.max()

    def _gained(self, outcomes: Tensor) -> Tensor:
        """What a trial adds to the information of a batch with outcomes [S, 2^k], [n]."""
        weighted = self.weights[:, None] * outcomes
        if self._alike is not None:
            parts = [_added(weighted[rows], self.p[rows]) for rows in self._alike]
            return _added(weighted, self.p) - torch.stack(parts).sum(0)
        own = torch.special.entr(self.p) + torch.special.entr(1.0 - self.p)
        return _added(weighted, self.p) - self.weights @ own

    def _of_trials(self, name: str, value: ArrayLike) -> Tensor:
        column = as_tensor(name, value).to(self.p.device)
        if column.shape not in ((), self.p.shape[1:]):
            raise ValueError(f"{name} must have shape [{self.p.shape[1]}], got {shown(column)}")
        return column.expand(self.p.shape[1])


def _added(weighted: Tensor, p: Tensor) -> Tensor:
    """What a trial adds to the entropy of outcomes of a batch, times the weight of the curves, [n].

    :param weighted: probabilities of a curve and an outcome, [S, 2^k]; `p`: [S, n].
    """
    entropy, joint, event = torch.special.entr, weighted.sum(0)[:, None], weighted.T @ p
    return (entropy(event) + entropy((joint - event).clamp(min=0.0)) - entropy(joint)).sum(0)
