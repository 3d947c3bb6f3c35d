"""The probability from which on acting is cheaper than not acting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.validation import ArrayLike, as_tensor


def cost_threshold(
    false_alarm: ArrayLike, miss: ArrayLike, *, hit: ArrayLike = 0.0, rejection: ArrayLike = 0.0
) -> npt.NDArray[np.float64]:
    """The probability of an event from which on it costs least to act as if it came (Elkan 2001).

    Acting costs `hit` if the event comes and `false_alarm` if not; not acting costs `miss` if it
    comes and `rejection` if not. With probability p of the event, acting is expected to cost no
    more exactly where p is at least::

        (false_alarm - rejection) / (false_alarm - rejection + miss - hit)

    Where all of the band of a prediction lies on one side of it, the band does not change the
    decision.

    :param false_alarm, miss, hit, rejection: costs in one unit, negative where they are gains:
        numbers, or arrays that broadcast, such as one cost for each row.
    :returns: thresholds in (0, 1), of the shape of the costs.
    :raises ValueError: where a mistake does not cost more than the right decision.

    >>> float(cost_threshold(false_alarm=1.0, miss=4.0))
    0.2
    """
    costs = {"false_alarm": false_alarm, "miss": miss, "hit": hit, "rejection": rejection}
    of = {name: as_tensor(name, each).double().cpu().numpy() for name, each in costs.items()}
    wasted, lost = of["false_alarm"] - of["rejection"], of["miss"] - of["hit"]
    for wrong, right, excess in (("false_alarm", "rejection", wasted), ("miss", "hit", lost)):
        if not ((excess > 0.0) & np.isfinite(excess)).all():
            raise ValueError(f"{wrong} must cost more than {right}, got {excess.min():g} more")
    return np.asarray(wasted / (wasted + lost))
