"""Predictions for rows of x at many revenues, block by block in a bounded amount of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm._utils.tensors import elementwise
from pyro_gcm._utils.validation import kind
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.event_planes import (
    CostCoordinates,
    EventPlanes,
    Factor,
    planes,
)
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.prediction.base_samples import BLOCK_ROWS, PASS, at_once, in_blocks, row_blocks
from pyro_gcm.prediction.draws import Draws
from pyro_gcm.prediction.predicted import FixedNoise, Predicted
from pyro_gcm.responses import Response

#: What `surface` makes of a block of predictions [b, R]: a tensor [b, ...].
Reduce = Callable[[Tensor], Tensor]
#: Numbers of a plane that are computed together: few enough for a processor's cache.
PLANE = 1 << 15
#: Rows of x that are evaluated at all revenues at a time, at most.
_ROWS = 64
#: Bytes of a number in all planes that exist at a time.
_PLANES = 8 * 8


class SurfaceDraws(NamedTuple):
    """Predictions given each of N draws: values [N, B, R] and weights [N, B, R] that sum to 1.

    `weights` is None where they are equal.
    """

    values: Tensor
    weights: Tensor | None

    def to(self, device: torch.device) -> SurfaceDraws:
        """The same on another device."""
        weights = None if self.weights is None else self.weights.to(device)
        return SurfaceDraws(self.values.to(device), weights)


def stacked(blocks: Iterator[Tensor], rows: int, reduce: Reduce | None = None) -> Tensor:
    """Blocks of a surface, or what `reduce` makes of each, in one tensor of so many rows."""
    whole, start = torch.empty(0), 0
    for block in blocks:
        try:
            part = block if reduce is None else reduce(block)
        except (TypeError, ValueError) as error:
            raise ValueError(f"reduce raised {type(error).__name__}: {error}") from error
        if not isinstance(part, Tensor) or part.shape[:1] != block.shape[:1]:
            got = f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else kind(part)
            raise ValueError(
                f"reduce must return a tensor with {len(block)} rows, one for each of x, got {got}"
            )
        if start == 0:
            whole = part.new_empty(rows, *part.shape[1:])
        whole[start : start + len(part)] = part
        start += len(part)
    return whole


def row_predictions(
    model: OrderEventModel, x: Tensor, r: Tensor, noise: FixedNoise
) -> Iterator[tuple[slice, Tensor, Draws]]:
    """Predictions [N, b] for consecutive rows of x and r: where they stand, and their draws.

    Networks see whole blocks, padded if need be, because a matrix product of another shape rounds
    differently. What follows them is computed for the rows that were asked for alone.
    """
    plan = model.prediction_plan
    for place, (x_block, r_block) in row_blocks(x, r, draws=noise.count):
        draws = Predicted(model, plan, noise).read(x_block, r_block)
        rows = slice(0, place.stop - place.start)
        yield place, model.response.values(draws.p_y, rows), draws


def surface_draws(
    model: OrderEventModel, x: Tensor, revenues: Tensor, noise: FixedNoise
) -> SurfaceDraws:
    """Predictions for every pair, given each draw of the latent variables."""
    dtype, weights = model.response.prediction_dtype(model.dtype), []
    values: list[Tensor] = []
    pairs = _pairs(x, revenues, 0, len(x) * len(revenues))
    for _, found, draws in row_predictions(model, *pairs, noise):
        values.append(found.to(dtype))
        if draws.log_weights is not None:
            weights.append(draws.log_weights[:, : found.shape[1]].exp().to(model.dtype))
    shape = -1, len(x), len(revenues)
    whole = torch.cat(weights, 1).reshape(shape) if weights else None
    return SurfaceDraws(torch.cat(values, 1).reshape(shape), whole)


def _pairs(x: Tensor, revenues: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Some of the pairs of a row of x and one of the revenues, which change fastest."""
    pair = torch.arange(start, stop, device=x.device)
    return x[pair // len(revenues)], revenues[pair % len(revenues)]


def pair_surface(
    model: OrderEventModel, x: Tensor, revenues: Tensor, noise: FixedNoise, memory: float
) -> Iterator[Tensor]:
    """Blocks [b, R] of a surface whose every pair is a row of its own, as in `predict`.

    :param memory: see `strict_surface`.
    """
    count, share = len(revenues), memory / 4
    dtype = model.response.prediction_dtype(model.dtype)
    width = max(
        at_once(BLOCK_ROWS, x.device), int(share / (8 * (x.shape[1] + revenues.shape[1]) + 32))
    )
    rows = max(1, min(width, int(share / dtype.itemsize)) // count)
    for part in x.split(rows):
        block = torch.empty(len(part) * count, dtype=dtype, device=x.device)
        for start in range(0, len(block), width):
            cells = block[start : start + width]
            chosen = _pairs(part, revenues, start, start + len(cells))
            for place, values, draws in row_predictions(model, *chosen, noise):
                cells[place] = draws.mean(values).to(block)
        yield block.reshape(-1, count)


def strict_surface(
    model: OrderEventModel, x: Tensor, revenues: Tensor, noise: FixedNoise, memory: float
) -> Iterator[Tensor]:
    """Blocks [b, R] of the surface of `GCM`, whose costs do not depend on r.

    :param x: [B, x_dim] in data units, on the device of the model.
    :param revenues: [R, r_dim].
    :param memory: bytes of working memory besides the result and the networks' numbers for
        one block of rows.
    """
    plan, share = model.prediction_plan, memory / 4
    coordinates = torch.Size(model.map_shape(model.cost_shape)).numel()
    parts = revenues.split(max(1, int(share / (32 * coordinates + 64))))

    @lru_cache(maxsize=1)
    def distinct(number: int) -> DistinctRevenues:
        mapped = in_blocks(model.mapped, parts[number], draws=16)
        # [R, 1 or members, (G,) K]
        return DistinctRevenues(mapped.reshape(len(mapped), -1, *model.cost_shape), parts[number])

    dtype = model.response.prediction_dtype(model.dtype)
    row_bytes = dtype.itemsize * len(revenues) + 8 * len(parts[0])
    for place, (padded,) in row_blocks(x, draws=max(noise.count, PASS // _ROWS)):
        reader = Predicted(model, plan, noise, until="c")
        draws, e = reader.read(padded, None), reader.values["e"]
        step = max(
            1, min(at_once(_ROWS, x.device), int(share / max(row_bytes, _PLANES * draws.num_draws)))
        )
        count = place.stop - place.start
        for start in range(0, count, step):
            rows = slice(start, min(start + step, count))
            block = torch.empty(rows.stop - start, len(revenues), dtype=dtype, device=x.device)
            at = 0
            for number, part in enumerate(parts):
                grid = _Grid(model.response, draws, e, rows, distinct(number), share)
                block[:, at : at + len(part)] = grid.means().T
                at += len(part)
            yield block


class DistinctRevenues:
    """Mapped revenues, every row of them once.

    :param mapped: what the costs are compared with, [R, n, (G,) K]: by the one map (n = 1), or by
        the map of each draw.
    :param given: the revenues themselves, [R, r_dim].
    """

    def __init__(self, mapped: Tensor, given: Tensor) -> None:
        self.rows, self.given = mapped, given
        one_map = mapped.shape[1] == 1
        #: Which of `rows` each given row is, [R]; None where no row repeats.
        self.row: Tensor | None = None
        every = self._columns().transpose(1, 2).flatten(0, 1)  # [(G) K n, R]
        found = [column.unique(return_inverse=True) for column in every]
        row = found[0][1]
        for values, number in found[1:]:
            row = (row * len(values) + number).unique(return_inverse=True)[1]
        count = int(row.max()) + 1
        if count < len(row):
            place = torch.arange(len(row), device=row.device)
            first = row.new_empty(count).scatter_(0, row, place)
            self.rows, self.given, self.row = mapped[first], given[first], row
            found = [(values, number[first]) for values, number in found]
        #: The distinct values [V] of a coordinate and which of them each row has, [D], where that
        #: is worth a table and there is one map.
        self.repeated = {
            k: column for k, column in enumerate(found) if one_map and 2 * len(column[0]) <= count
        }
        #: The values of each coordinate, [(G) K, D, n].
        self.columns = self._columns()

    def _columns(self) -> Tensor:
        return planes(self.rows, self.rows.shape[2:])

    def __len__(self) -> int:
        return len(self.rows)

    def in_order(self, values: Tensor) -> Tensor:
        """Values [D, ...] for the rows that were given, [R, ...]."""
        return values if self.row is None else values.index_select(0, self.row)


class _Grid:
    """Some rows of a block at many revenues.

    :param room: bytes for the planes of a chunk, and as many for tables of repeated values.
    """

    def __init__(
        self,
        response: Response,
        draws: Draws,
        covariates: Tensor,
        rows: slice,
        revenues: DistinctRevenues,
        room: float,
    ) -> None:
        self.response, self.draws, self.rows, self.revenues = response, draws, rows, revenues
        self.covariates = covariates
        p_y = self._outcome(slice(0, 1))
        event, self.read = self._event(slice(0, 1)), None
        if event.is_separable:
            self.read = response.reader(p_y, rows)
        size = draws.num_draws * (rows.stop - rows.start)
        if self.read is None:
            size = event.batch_shape.numel() * event.cost_shape.numel()
        else:
            self.cost = CostCoordinates(event, rows)
        self.chunk = max(1, int(min(at_once(PLANE, covariates.device), room / _PLANES)) // size)
        self._tables: dict[int, Factor] = {}
        self.tabulated = set()
        for k, (values, _) in revenues.repeated.items():
            room -= 2 * 8 * len(values) * size  # a probability and its logarithm
            if room >= 0:
                self.tabulated.add(k)

    def means(self) -> Tensor:
        """Predictions [R, b]."""
        columns, count = self.revenues.columns, self.rows.stop - self.rows.start
        # Small tensors that outlive a chunk would leave holes between the planes.
        dtype = self.response.prediction_dtype(columns.dtype)
        means = columns.new_empty(len(self.revenues), count, dtype=dtype)
        with nullcontext() if self.read is None else elementwise():
            for start in range(0, len(means), self.chunk):
                place = slice(start, start + self.chunk)
                means[place] = self.draws.mean(self._values(place), self.rows.start)
            return self.revenues.in_order(means)

    def _event(self, part: slice) -> OrderEvent:
        """The order event at some revenues, of batch shape [m, N, b or more]."""
        revenues = self.revenues.rows[part]  # [m, n, (G,) K]
        return OrderEvent(self.draws.left["c"].fn, revenues[:, :, None])

    def _outcome(self, part: slice) -> Any:
        """The distribution of the outcome at some revenues."""
        r = self.revenues.given[part][:, None, None]  # [m, 1, 1, r_dim]
        return self.response.distribution(self._event(part), self.covariates, r)

    def _values(self, part: slice) -> Tensor:
        """Predictions [m, N, b] given each draw."""
        if self.read is None:
            return self.response.values(self._outcome(part), self.rows)

        def log_probs() -> tuple[Tensor, Tensor]:
            log_zero, log_one = self._event(part).log_probs64()
            return log_zero[..., self.rows], log_one[..., self.rows]

        return self.read(EventPlanes(self.cost, partial(self._factors, part), log_probs))

    def _factors(self, part: slice, logarithms: bool) -> Iterator[Factor]:
        for k, column in enumerate(self.revenues.columns):
            if k not in self.tabulated:
                yield self.cost.factor(k, column[part, :, None], logarithms)
                continue
            values, number = self.revenues.repeated[k]
            if k not in self._tables:
                self._tables[k] = self.cost.factor(k, values[:, None, None], logarithms)
            yield self._tables[k].select(number[part])
