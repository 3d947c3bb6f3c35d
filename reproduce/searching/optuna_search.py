"""A search by Optuna's TPE, which goes on from its finished trials as if it had never stopped."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from reproduce.arguments import Refused
from reproduce.runs import Settings

if TYPE_CHECKING:
    from optuna import Trial

#: Trials before TPE's model is used: the default, and random ones.
STARTUP = 8


class OptunaSearch:
    """Trials of one method on some rows, one after the other.

    The sampler is seeded anew for each trial, from the name of the study and the number of the
    trial: a study that is told the finished trials of another one goes on as that one would have.

    :param name: what tells this study from the others.
    :param space: see `reproduce.methods.spaces.Searched`, with the sizes filled in.
    :param default: the searched values of the first trial.
    """

    def __init__(self, name: str, space: Callable[[Trial], Settings], default: Settings) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._name, self._space, self._default = name, space, default
        self._trials = optuna.create_study()
        self._asked: tuple[Trial, Settings] | None = None
        self._told: list[tuple[float, Settings]] = []

    def ask(self, finished: Settings | None = None) -> Settings:
        """The settings of the next trial.

        :param finished: those that this trial had in an earlier run.
        :raises Refused: if the space cannot have made them.
        """
        from optuna.samplers import TPESampler

        number = len(self._told)
        seed = zlib.crc32(f"{self._name}/{number}".encode())
        self._trials.sampler = TPESampler(seed=seed, n_startup_trials=STARTUP)
        if finished is not None or number == 0:
            self._trials.enqueue_trial(self._default if finished is None else finished)
        trial = self._trials.ask()
        settings = self._space(trial)
        if finished is not None and settings != finished:
            raise Refused(
                f"trial {number} of {self._name} was {finished}, the space has {settings}: "
                "remove the trials of another space"
            )
        self._asked = trial, settings
        return settings

    def tell(self, loss: float) -> None:
        """The loss of the settings that were asked for; NaN if they diverged."""
        if self._asked is None:
            raise RuntimeError("there is no open trial: call ask first")
        trial, settings = self._asked
        loss = math.inf if math.isnan(loss) else loss
        self._trials.tell(trial, loss)
        self._told.append((loss, settings))
        self._asked = None

    def best(self) -> Settings:
        """The settings with the lowest loss; the first of them if tied.

        :raises Refused: if every trial diverged.
        """
        loss, settings = min(self._told, key=lambda each: each[0])
        if math.isinf(loss):
            raise Refused(f"every trial of {self._name} diverged")
        return settings
