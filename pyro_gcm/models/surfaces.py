"""Surfaces of predictions at many revenues, and the revenue at which one reaches a level."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor

from pyro_gcm._utils.bisection import Function, smallest_reaching
from pyro_gcm._utils.validation import (
    ArrayLike,
    as_tensor,
    matrix,
    number,
    positive,
    positive_int,
    same_rows,
    share,
    vector,
)
from pyro_gcm.distributions.event_forms import some
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.models.predictions import Count, prediction
from pyro_gcm.prediction.base_samples import FixedNoise
from pyro_gcm.prediction.draws import PASS, Draws, Rows, SurfaceDraws, blocks
from pyro_gcm.prediction.predicted import Predicted

#: What `surface` makes of a block of predictions [b, R]: a tensor [b, ...].
Reduce = Callable[[Tensor], Tensor]
#: A function of a prediction, itself one of values [b], and of what is known of b rows.
Search = Callable[[Function, Tensor], Tensor]
#: Rows of x that are evaluated at all revenues at a time, at most.
_ROWS = 64
#: Numbers of all coordinates that are computed together: few enough for a processor's cache.
_PLANES = 3 << 16


class Surfaces(Posteriors):
    """A model with its predictions at many revenues."""

    @prediction
    def surface(
        self,
        x: ArrayLike,
        revenues: ArrayLike,
        *,
        num_samples: Count = None,
        reduce: Reduce | None = None,
        memory: float = 256.0,
    ) -> Tensor:
        """Predictions for every row of x at every row of revenues.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        :param reduce: function of a few rows of the surface, [b, R], to what is kept of them,
            [b, ...], such as `lambda p: (p >= 0.9).int().argmax(1)`, the first revenues that reach
            0.9. The whole surface is then never held.
        :param memory: limit of the working memory in megabytes (10^6 bytes), beside the result and
            what the networks need for a block of rows, and for revenues. The numbers do not depend
            on it.
        :returns: [B, R], or what `reduce` returns for all rows, [B, ...].
        :raises ValueError: for a result of `reduce` with another number of rows.

        >>> import torch
        >>> from pyro_gcm import GCM
        >>> model, x, revenues = GCM(2, 1), torch.zeros(5, 2), torch.arange(7.0)[:, None]
        >>> model.surface(x, revenues).shape
        torch.Size([5, 7])
        """
        x, revenues = self.grid(x, revenues)
        memory = 1e6 * positive("memory", memory)
        parts = []
        for block in self._surface_blocks(x, revenues, self.noise(num_samples), memory):
            part = block if reduce is None else reduce(block)
            if part.shape[:1] != block.shape[:1]:
                shape = tuple(part.shape)
                raise ValueError(f"reduce must return {len(block)} rows, got shape {shape}")
            parts.append(part)
        return torch.cat(parts)

    @prediction
    def surface_draws(
        self, x: ArrayLike, revenues: ArrayLike, *, num_samples: Count = None
    ) -> SurfaceDraws:
        """The predictions behind `surface` before they are averaged over the draws of z.

        They show how the response differs between latent values: z, and k of `IGCM` where drawn.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        """
        x, revenues = self.grid(x, revenues)
        pairs = x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)
        values, weights = self._draws(Rows(*pairs), self.noise(num_samples))
        shape = len(values), len(x), len(revenues)
        return SurfaceDraws(
            values.reshape(shape), None if weights is None else weights.reshape(shape)
        )

    def grid(self, x: ArrayLike, revenues: ArrayLike) -> tuple[Tensor, Tensor]:
        """Checked x and revenues of a surface."""
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        revenues = matrix("revenues", revenues, self.r_dim, "r_dim", self.device)
        self.response.check_revenue(revenues)
        self.read_rows(x, revenues)
        return x, revenues

    def _surface_blocks(
        self, x: Tensor, revenues: Tensor, noise: FixedNoise, memory: float
    ) -> Iterator[Tensor]:
        """Blocks [b, R] of `surface` after the checks: every pair is a row, as in `predict`."""
        count, pair_bytes = len(revenues), 8 * (x.shape[1] + revenues.shape[1] + 4)
        for part in x.split(max(1, int(memory / (4 * pair_bytes * count)))):
            pairs = part.repeat_interleave(count, 0), revenues.repeat(len(part), 1)
            yield self._predicted(Rows(*pairs), noise).reshape(len(part), count)


class Monotone(Surfaces):
    """A model of which r enters y alone, by a map, unless a story of one's own says otherwise."""

    #: h(r) of given draws, by what is read of x, or of all members.
    mapped: Callable[..., Tensor]

    @property
    def _has_paper_story(self) -> bool:
        """Whether r enters y alone, through its map, so that predictions need not be read anew."""
        return not self._overrides("story", "y_dist")

    def _surface_blocks(
        self, x: Tensor, revenues: Tensor, noise: FixedNoise, memory: float
    ) -> Iterator[Tensor]:
        """Blocks [b, R] of `surface` after the checks; x is encoded once for all revenues."""
        if not self._has_paper_story:
            yield from super()._surface_blocks(x, revenues, noise, memory)
            return
        costs = self.cost_shape
        every = torch.cat([self.mapped(r)[:count] for count, (r,) in blocks(revenues, draws=16)])
        every = every.reshape(len(every), -1, 1, *costs)  # [R, members or 1, 1, (G,) K]
        dtype = self.response.prediction_dtype(self.dtype)
        few = max(1, int(memory / (4 * dtype.itemsize * len(revenues))))
        at_once = {**noise.in_blocks, "draws": max(noise.count, PASS // _ROWS)}
        for count, (rows,) in blocks(x, **at_once):
            any_revenues = revenues[:1].expand(len(rows), -1)
            draws = Predicted(self, self.prediction_plan, noise).read(rows, any_revenues)
            step = draws.apart(min(few, count), len(rows))
            for first in range(0, count, step):
                own = draws.of_rows(slice(first, first + step)) if step < len(rows) else draws
                event, kept = own.p_y.event, min(step, count - first)
                # Small tensors that outlive a part would leave holes between its planes.
                found = x.new_empty(len(every), kept, dtype=dtype)
                if every.shape[1] == 1 and event.has_rows:  # one map for all draws
                    event.rising.tabulate(event.with_revenue(every).points, memory / 32)
                numbers = event.batch_shape.numel() * math.prod(costs)
                size = max(1, _PLANES // numbers)
                for part, into in zip(every.split(size), found.split(size), strict=True):
                    values = self.response.predict(own.p_y.with_revenue(part))
                    into.copy_(own.mean(values)[:, :kept])
                yield from found.T.split(few)

    @prediction
    def required_revenue(
        self,
        x: ArrayLike,
        level: float | Tensor = 0.9,
        *,
        revenue: int = 0,
        r: ArrayLike | None = None,
        num_samples: Count = None,
    ) -> Tensor:
        """The smallest value of one revenue at which the prediction reaches a level, [B].

        The cheapest bid that wins with probability 0.9, the smallest dose that half of the patients
        respond to. It is found by evaluating `predict`, and is in data units.

        :param x: [B, x_dim] in data units.
        :param level: of the prediction: a probability, or a value of y; or one for each row, [B].
        :param revenue: index of the revenue that is searched for.
        :param r: the other revenues, [B, r_dim - 1] or [r_dim - 1] in the order of the columns, or
            with a column of NaN for the one that is searched for, [B, r_dim] or [r_dim]; their
            training means by default.
        :returns: inf where no revenue reaches the level, -inf where every revenue does (within
            2^20 standard deviations of the training data).
        :raises ValueError: for a number in `r` in place of the revenue that is searched for, for
            levels that are not finite or not one for each row, and for quantile levels.
        """
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        revenue = positive_int("revenue", revenue, minimum=0)
        if isinstance(level, Tensor):
            every = vector("level", level, self.device).double()
            same_rows(x=x, level=every)
        else:
            is_share = self.response.is_probability
            level = share("level", level, "a probability") if is_share else number("level", level)
            every = x.new_full((len(x),), level, dtype=torch.float64)
        units = self.r_standardizer
        dtype = torch.promote_types(self.dtype, units.loc.dtype)

        def search(prediction: Function, levels: Tensor) -> Tensor:
            start, step = (
                unit[revenue].double().expand(len(levels)) for unit in (units.loc, units.scale)
            )
            return smallest_reaching(prediction, levels, start, step, dtype)

        found: Tensor = self.along(x, search, every, revenue=revenue, r=r, num_samples=num_samples)
        return found

    @prediction
    def along(
        self,
        x: ArrayLike,
        search: Search,
        columns: Tensor,
        *,
        revenue: int | None = 0,
        r: ArrayLike | None = None,
        num_samples: Count = None,
    ) -> Tensor:
        """What a search finds among the predictions of each row as one revenue moves.

        x is encoded once for all predictions of a block of rows.

        :param x: [B, x_dim] in data units.
        :param search: function of (prediction, columns) of b rows to what it finds, [b, ...], where
            `prediction` takes float64 values of the revenue [b] to predictions [b], those of
            `predict` as float64.
        :param columns: what the search is to know of each row, float64 [B] or [B, k].
        :param revenue: index of the revenue that moves; None for the time of a model with
            response="survival", whose prediction is then Pr(T <= t | x, r).
        :param r: the other revenues, as in `required_revenue`; all of them for times.
        :returns: [B, ...].
        """
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        same_rows(x=x, columns=columns)
        noise = self.noise(num_samples)
        if revenue is None:

            def along_time(draws: Draws, some: Rows) -> Tensor:
                def cdf(times: Tensor) -> Tensor:
                    return draws.mean(draws.p_y.cdf(times[None]))

                return search(cdf, cast(Tensor, some.y))

            r = x.new_zeros(len(x), 0) if r is None and not self.r_dim else r
            return self.each_block(along_time, self.rows(x, r)._replace(y=columns), noise)
        self.response.check_rises_in(revenue)
        loc = self.r_standardizer.loc.double()
        rows = self.rows(x, _with_start(r, len(x), revenue, loc))
        rounded = self.response.prediction_dtype(self.dtype)  # as the prediction at the result

        def of_block(count: int, x: Tensor, r: Tensor, known_of_rows: Tensor) -> Tensor:
            draws, kept = Predicted(self, self.prediction_plan, noise).read(x, r), len(x)
            known = draws.values
            if self._has_paper_story:
                draws, kept = draws.without_padding(count, kept)

            def prediction(value: Tensor) -> Tensor:
                moved = r.clone()
                moved[:kept, revenue] = value
                if self._has_paper_story:
                    # A member's map is chosen by e.
                    mapped = self.mapped(moved, known.get("e", x))
                    own = some(mapped, len(self.cost_shape), slice(kept))
                    p_y = draws.p_y.with_revenue(own)
                else:
                    again = Predicted(self, self.prediction_plan, known=known)
                    p_y = again.read(x, moved).p_y
                values = self.response.predict(p_y)
                return draws.mean(values).to(rounded).double()

            return search(prediction, known_of_rows[:kept])[:count]

        parts = blocks(rows.x, rows.r.double(), columns, **noise.in_blocks)
        return torch.cat([of_block(count, *part) for count, part in parts])


def _with_start(r: ArrayLike | None, count: int, revenue: int, loc: Tensor) -> Tensor:
    """Revenues [B, m] with the training mean in the column that is searched for."""
    if r is None:
        return loc.expand(count, -1)
    rows, size = as_tensor("r", r, loc.device).double(), len(loc)
    if rows.dim() == 1:
        rows = rows.expand(count, -1)
    if rows.shape[1] == size - 1:
        gap = rows.new_full((len(rows), 1), torch.nan)
        rows = torch.cat([rows[:, :revenue], gap, rows[:, revenue:]], 1)
    given = rows[~rows[:, revenue].isnan(), revenue]
    if len(given):
        raise ValueError(
            f"r must have NaN in column {revenue}, the revenue that is searched for, or leave the "
            f"column out, got {given[0].item():g}"
        )
    return torch.where(torch.arange(size, device=rows.device) == revenue, loc, rows)
