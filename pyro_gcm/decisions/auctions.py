"""Bids and prices of largest expected profit, under a probability that rises with the bid."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, as_tensor, kind, positive, shown, vector
from pyro_gcm.decisions.search import Curve, area_below, best_margin
from pyro_gcm.estimators.estimator import MonotoneEstimator
from pyro_gcm.estimators.kinds import monotone_prediction
from pyro_gcm.models.surfaces import Monotone
from pyro_gcm.responses import Survival

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

Array = npt.NDArray[np.float64]
#: What a search finds of rows [b, k], from their curve and their columns [b, 3].
Search = Callable[[Curve, Tensor], Tensor]
#: Rows of a table whose bids are searched for together.
_ROWS = 1024


class BidOptions(TypedDict, total=False):
    """Options of `first_price`, `second_price` and `posted_price`."""

    revenue: int | str
    r: ArrayLike | None
    column: Callable[[Array], ArrayLike]
    level: float | None


def first_price(
    predictor: Any,
    x: ArrayLike,
    value: ArrayLike,
    *,
    low: ArrayLike = 0.0,
    high: ArrayLike | None = None,
    tolerance: float = 1e-3,
    **options: Unpack[BidOptions],
) -> pd.DataFrame:
    """The bid of largest expected profit (value - bid) p(x, bid) where the winner pays its bid.

    The profit has several peaks where prices have; branch and bound proves how far from the largest
    one it can be: as p rises, no bid from a to b gains more than (value - a) p(b).

    :param predictor: a `GCM`, `MemberGCM` or `HierarchicalGCM` whose prediction is the probability
        of winning; one with response="survival" whose time is the price to beat, of which the
        probability of winning is Pr(T <= bid); an estimator, such as `GCMClassifier`; or a function
        of a table to probabilities [n], of any other library.
    :param x: [n, x_dim] of a model; otherwise a pandas DataFrame of n rows that has the column of
        the bid, whose values do not matter.
    :param value: what winning is worth, a number or [n], in the unit of the bids.
    :param low: the lowest bid, a number or [n]; `high`: the highest one, by default the value,
        above which no bid pays.
    :param tolerance: the largest gap, as a share of the profit found.
    :param options: `revenue`, the column of r that is the bid, 0 by default, or the name of the
        bid's column of a table: the prediction rises with it. `r`, the other revenues of a model,
        as in `required_revenue`; all of them for times. `column`, an increasing function from bids
        to what the predictor was trained on, such as `np.log` (with `low` above 0). `level` of
        bands, see `predict_bands` of an estimator: then the same is answered as if the lower, and
        as if the upper end of the band were true; the first is the bid with the largest profit that
        the band guarantees.
    :returns: a row for each row: "bid", its "probability" and "profit", and "gap", by which no
        other bid can gain more; with `level` also "bid_lower" and so on, and "bid_upper" and so
        on. NaN, with a profit of 0, where the value is below the lowest bid. The gap is larger than
        the tolerance where 2,048 points do not suffice.
    :raises TypeError: for a predictor that promises no order.
    :raises ValueError: for wrong columns, and where predictions are seen to fall.

    >>> import torch
    >>> from pyro_gcm import GCM
    >>> best = first_price(GCM(2, 1), torch.zeros(3, 2), value=1.5)
    >>> bool((best["gap"] <= 1e-3 * best["profit"]).all())
    True
    """
    value, floor, ceiling = _columns(x, value=value, low=low, high=value if high is None else high)
    ends = value, floor, torch.minimum(value, ceiling)
    best = partial(best_margin, tolerance=positive("tolerance", tolerance))
    return _decided(predictor, x, best, ends, "bid", **options)


def second_price(
    predictor: Any,
    x: ArrayLike,
    value: ArrayLike,
    *,
    low: ArrayLike = 0.0,
    **options: Unpack[BidOptions],
) -> pd.DataFrame:
    """What bidding the value is expected to gain where the winner pays the highest other bid.

    In a second-price auction no bid is better than the value itself, whatever p is (Vickrey 1961).
    If p(x, bid) is the probability that the price is below the bid, the expected profit is the area
    below p up to the value. As p rises, it lies between two sums, whose mean this is.

    The arguments are those of `first_price`; prices below `low` count as `low`.

    :returns: a row for each row: "bid", its "probability" and "profit", and "gap", by which the
        profit can differ from the area at most; with `level` also for the ends of the band.
    :raises TypeError: as `first_price` does.
    :raises ValueError: as `first_price` does.
    """
    value, floor = _columns(x, value=value, low=low)
    return _decided(predictor, x, area_below, (value, floor, value), "bid", **options)


def posted_price(
    predictor: Any,
    x: ArrayLike,
    cost: ArrayLike,
    *,
    high: ArrayLike,
    low: ArrayLike | None = None,
    tolerance: float = 1e-3,
    **options: Unpack[BidOptions],
) -> pd.DataFrame:
    """The price of largest expected profit (price - cost) p(x, price), where p falls with it.

    The bid of `first_price`, reflected: of prices from a to b none gains more than (b - cost) p(a).
    The arguments are those of `first_price`, but for these:

    :param cost: of what is sold, a number or [n].
    :param high: the highest price, a number or [n]; `low`: the lowest one, the cost by default.
    :param options: `column` is a decreasing function from prices to a revenue of a model, which
        rises, by default minus the price; of a table an increasing one.
    :returns: as `first_price`, with "price" in place of "bid". NaN, with a profit of 0, where the
        cost is above the highest price.
    :raises TypeError: as `first_price` does.
    :raises ValueError: as `first_price` does.
    """
    cost, floor, ceiling = _columns(x, cost=cost, low=cost if low is None else low, high=high)
    ends = -cost, -ceiling, -torch.maximum(cost, floor)
    own = options.pop("column", np.negative if isinstance(predictor, Monotone) else np.asarray)
    options["column"] = lambda at: own(-at)
    best = partial(best_margin, tolerance=positive("tolerance", tolerance))
    found = _decided(predictor, x, best, ends, "price", **options)
    prices = found.filter(like="price")
    return found.assign(**{str(name): -prices[name] for name in prices})


def _decided(
    predictor: Any,
    x: Any,
    search: Search,
    ends: tuple[Tensor, ...],
    name: str,
    *,
    revenue: int | str = 0,
    r: ArrayLike | None = None,
    column: Callable[[Array], ArrayLike] = np.asarray,
    level: float | None = None,
) -> pd.DataFrame:
    """What a search finds, by name and end of the band.

    :param ends: columns [n] of values, lowest and highest points: there is none where they cross.
    """
    import pandas as pd

    asked: dict[str, Callable[[Any], Any]] = {"": predictor}
    if isinstance(predictor, MonotoneEstimator):
        asked[""] = partial(monotone_prediction, predictor)
    if level is not None:
        if not hasattr(predictor, "predict_bands"):
            raise ValueError(f"level must be None for {kind(predictor)}: estimators have bands")
        asked["_lower"] = lambda table: predictor.predict_bands(table, level).lower
        asked["_upper"] = lambda table: predictor.predict_bands(table, level).upper
    if not isinstance(predictor, Monotone):
        if isinstance(predictor, torch.nn.Module) or not callable(asked[""]):
            wanted = "a strict model such as a GCM, an estimator or a function of a table"
            raise TypeError(f"predictor must be {wanted}, got {kind(predictor)}")
        names = x.columns if isinstance(x, pd.DataFrame) else ()
        if r is not None or not isinstance(revenue, str) or revenue not in names:
            raise ValueError(f"revenue must be a column of x, a DataFrame, got {revenue!r}, r={r}")

    def in_table(rows: Tensor, predict: Callable[[Any], Any]) -> Tensor:
        def curve(at: Tensor) -> Tensor:
            bids = {str(revenue): _read(column, at).flatten().numpy()}
            table = x.iloc[np.tile(rows.numpy(), len(at))].assign(**bids)
            return as_tensor("predictor", predict(table)).double().reshape(at.shape)

        return search(curve, columns[rows])

    def in_block(prediction: Any, own: Tensor) -> Tensor:
        return search(lambda at: torch.stack([prediction(t) for t in _read(column, at)]), own)

    value, low, high = ends
    none = high < low
    columns = torch.stack([torch.where(none, low, value), low, torch.maximum(low, high)], 1)
    found: dict[str, Array] = {}
    for end, predict in asked.items():
        if isinstance(predictor, Monotone):
            at: Any = None if isinstance(predictor.response, Survival) else revenue
            parts = predictor.along(
                x, in_block, columns.to(predictor.device), revenue=at, r=r
            ).cpu()
        else:
            every = torch.arange(len(x)).split(_ROWS)
            parts = torch.cat([in_table(rows, predict) for rows in every])
        parts[none] = parts.new_tensor([torch.nan, 0.0, 0.0, 0.0])
        for each, part in zip((name, "probability", "profit", "gap"), parts.T, strict=True):
            found[each + end] = part.numpy()
    return pd.DataFrame(found, index=x.index if isinstance(x, pd.DataFrame) else None)


def _read(column: Callable[[Array], ArrayLike], at: Tensor) -> Tensor:
    """Points [J, b] as the predictor reads them."""
    read = as_tensor("column", column(at.cpu().numpy()), at.device).flatten()
    return vector("column", read).double().reshape(at.shape)


def _columns(x: Any, **given: ArrayLike) -> tuple[Tensor, ...]:
    """Numbers, or one for each row of x, as finite columns [n], float64."""
    found = []
    for name, each in given.items():
        column = as_tensor(name, each, torch.device("cpu")).double()
        if column.shape not in ((), (len(x),)) or not column.isfinite().all():
            raise ValueError(
                f"{name} must be a finite number or [{len(x)}] of them, got {shown(each)}"
            )
        found.append(column.expand(len(x)))
    return tuple(found)
