"""Times of several ways to do one thing, taken in turn, and their ratios."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pyro_gcm import one_thread

#: Runs of every side before the clock starts: caches fill, lazy imports happen.
WARM_UP = 3


def paired(
    sides: Mapping[str, Callable[[], object]],
    repeats: int,
    warm_up: int = WARM_UP,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Seconds of every call, [repeats] for each side; the sides run in turn, A B A B.

    The speed of a machine drifts, so that only times taken beside each other can be compared. One
    thread is used.

    :param clock: the CPU time of the process by default, since others run on the machine.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    with one_thread():
        for repeat in range(-warm_up, repeats):
            for name, call in sides.items():
                start = clock()
                call()
                if repeat >= 0:
                    seconds[name].append(clock() - start)
    return seconds


class Comparison(NamedTuple):
    """Several ways to do one thing.

    :param sides: name -> function that does it.
    :param reference: the side that the others are set beside.
    """

    title: str
    sides: Mapping[str, Callable[[], object]]
    reference: str
    warm_up: int = 1
    clock: Callable[[], float] = time.process_time

    def seconds(self, repeats: int) -> dict[str, list[float]]:
        """As of `paired`."""
        return paired(self.sides, repeats, self.warm_up, self.clock)


def ratio(times: Sequence[float], reference: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of the ratios of paired times."""
    lower, median, upper = np.quantile(np.divide(times, reference), [0.25, 0.5, 0.75])
    return float(lower), float(median), float(upper)


def show(seconds: Mapping[str, Sequence[float]], reference: str) -> None:
    """Print the median milliseconds of every side, and its ratio to the reference with quartiles.

    :param seconds: the result of `paired`.
    """
    for name, times in seconds.items():
        line = f"{name:32s} {1e3 * float(np.median(times)):9.3f} ms"
        if name != reference:
            lower, median, upper = ratio(times, seconds[reference])
            line += f"   {median:6.3f} x {reference} ({lower:.3f} to {upper:.3f})"
        print(line)
