"""The rows that `fit` trains on: tensors in memory, or rows read again in every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.validation import (
    ArrayLike,
    InvalidValue,
    as_tensor,
    checked_data,
    column_names,
    warn_user,
)
from pyro_gcm.streams import ShuffledRows, Source
from pyro_gcm.streams.sources import Block
from pyro_gcm.training import TrainingOptions
from pyro_gcm.training.batches import Batches, RowsInMemory, selected

_CPU = torch.device("cpu")
#: Most rows from which quantiles are taken, of data that are read in every epoch.
SAMPLE_ROWS = 200_000
#: Steps of a column, in standard deviations, within which copies of a row agree.
_NEARLY = 1e-4
#: Share of repeated covariates with several outcomes above which equal rows are no copies.
_MIXED = 0.1
#: Share of copies among the rows above which a warning tells of them.
_FEW = 0.05


def columns_of(model: Any, *columns: ArrayLike | None) -> dict[str, Tensor]:
    """The columns "x", "r" and "y" as tensors on the CPU.

    :raises ValueError: where they are not rows of the model.
    """
    checked = checked_data(model, *columns, required="xry", device=_CPU)
    model.response.check_latent(model, checked["y"])
    return checked


class DataInMemory:
    """Tensors, arrays or data frames.

    Attributes: `weights`, of the rows, [n], or of each member for them, [n, K], None where they are
    equal, and otherwise the last column of a batch; `names`, those of the columns of x and r where
    they are known; `rows`, their number; `ends`, the lowest and the highest outcome; `outcomes`, y
    of training rows, all of them or a sample, and their weights or None; `units`, what the model
    learns its units from.

    :param beside: rows that were given for validation.
    :param options: of which the seed and the share that is held out count.
    """

    def __init__(
        self,
        model: Any,
        columns: Sequence[Any],
        sample_weight: ArrayLike | None,
        beside: dict[str, Tensor] | None,
        options: TrainingOptions,
    ) -> None:
        self.columns, self.beside = columns_of(model, *columns), beside
        self.weights: Tensor | None = None
        if sample_weight is not None:
            index, weights = weighed(sample_weight, len(self.columns["y"]), model.members)
            self.columns = {name: column[index] for name, column in self.columns.items()}
            self.weights = None if bool((weights == weights.flatten()[0]).all()) else weights
        self.names = {name: column_names(columns[i]) for i, name in enumerate("xr")}
        y, weight = self.columns["y"], self.weights
        self.rows, self.ends = len(y), (y.amin(0), y.amax(0))
        self.order = torch.Generator().manual_seed(options.seed)
        same = copies(**self.columns) if options.validation else None
        self.learn, self.held_out = options.parts(self.rows, self.order, same and same[0])
        if weight is not None and weight.dim() == 2:
            self.held_out, weight = weight.eq(0.0).any(1).nonzero()[:, 0], weight.mean(1)
        self.outcomes = y[self.learn], None if weight is None else weight[self.learn]

    @property
    def units(self) -> dict[str, Any]:
        """The training rows."""
        chosen = selected([*self.columns.values()], self.learn)
        return dict(zip(self.columns, chosen, strict=True))

    def batches(self, options: TrainingOptions, dtype: torch.dtype) -> tuple[Batches, Batches]:
        """The training rows and those that are held out.

        :param dtype: of the weights of rows.
        """
        size, data = options.batch_size, [*self.columns.values()]
        if self.weights is not None:
            data.append(self._scaled(self.weights, dtype))
        data = [column.to(options.target) for column in data]
        training = RowsInMemory(data, self.learn, size, self.order)
        if self.beside is None:
            return training, RowsInMemory(data, self.held_out, size)
        beside = [column.to(options.target) for column in self.beside.values()]
        if self.weights is not None:  # rows that are given count equally
            beside.append(data[-1].new_ones(len(beside[0])))
        return training, RowsInMemory(beside, torch.arange(len(beside[0])), size)

    def _scaled(self, weights: Tensor, dtype: torch.dtype) -> Tensor:
        """Weights with a mean of 1 over the rows of each part, [n] or [n, K]; none becomes 0."""
        scaled = weights.clone()
        for part in (self.learn, self.held_out)[: 3 - weights.dim()]:
            if len(part):
                scaled[part] /= scaled[part].mean()
        least = torch.finfo(dtype).tiny
        return torch.where(weights > 0.0, scaled.clamp(min=least), 0.0).to(dtype)


class StreamedData:
    """Rows that are read in every epoch, of which a window is in memory; see `DataInMemory`."""

    weights: None = None

    def __init__(
        self,
        model: Any,
        source: Source,
        beside: dict[str, Tensor] | None,
        options: TrainingOptions,
    ) -> None:
        """Read all rows once, and check them."""
        self.names = {name: source.names[name] for name in "xr"}
        seen: list[Tensor] = []  # the lowest and the highest outcome

        def check(block: Block, first: int) -> None:
            try:
                y = columns_of(model, block["x"], block["r"], block["y"])["y"]
            except InvalidValue as error:
                place = source.place(first + error.row, error.argument or "y", error.column)
                raise ValueError(f"{error.message} in {place}") from error
            except ValueError as error:
                place = source.place(first, "", None)
                raise ValueError(f"{error}; rows are counted from {place}") from error
            y = torch.cat([*seen, y])
            seen[:] = y.amin(0, keepdim=True), y.amax(0, keepdim=True)

        row_bytes = 8 * (model.x_dim + model.r_dim + 1)
        self.stream = ShuffledRows(
            source,
            seed=options.seed,
            share=options.validation,
            sample_rows=max(1, min(SAMPLE_ROWS, source.memory // 8 // row_bytes)),
            check=check,
            progress=options.progress,
        )
        sample, aside = self.stream.sample, self.stream.validation
        self.held_out = aside if beside is None else beside
        self.rows, self.outcomes = self.stream.rows + len(aside["y"]), (sample["y"], None)
        self.ends = seen[0][0], seen[1][0]
        self.window = max(1, source.memory // 2 // sum(c[:1].nbytes for c in sample.values()))
        # Mean and spread of all rows; quantiles from a sample of them.
        self.units = {**sample, "moments": {"x": self.stream.x, "r": self.stream.r}}

    def batches(self, options: TrainingOptions, dtype: torch.dtype) -> tuple[Batches, Batches]:
        """See `DataInMemory`."""
        size, device = options.batch_size, options.target
        columns = [self.held_out[name].to(device) for name in "xry"]
        held_out = RowsInMemory(columns, torch.arange(len(columns[0])), size)
        return self.stream.in_batches(size, self.window, device), held_out


def weighed(sample_weight: ArrayLike, rows: int, members: int = 0) -> tuple[Tensor, Tensor]:
    """The rows of a weight above 0 and their weights in float64, the largest of them 1.

    They are rounded to float32, so that a common factor changes nothing.

    :param members: number of members, each of which may have a weight of its own for a row.
    :returns: indices of rows in their order, and a weight for each, [n] or [n, K], on the CPU.
    :raises ValueError: unless there is a finite weight of at least 0 for every row, not all 0.
    """
    weights = as_tensor("sample_weight", sample_weight, _CPU).double()
    weights = weights[:, 0] if weights.shape == (rows, 1) else weights
    if weights.shape not in {(rows,), (rows, members or 1)}:
        raise ValueError(
            f"sample_weight must have a weight for each of the {rows} rows, got shape "
            f"{tuple(weights.shape)}"
        )
    if len(wrong := (~(weights >= 0.0) | weights.isinf()).nonzero()):
        message = f"sample_weight must be finite and at least 0, got {weights[tuple(wrong[0])]:g}"
        raise InvalidValue(message, int(wrong[0, 0]))
    if not weights.any():
        raise ValueError("sample_weight must have a weight above 0, got only 0")
    index = weights.reshape(rows, -1).any(1).nonzero()[:, 0]
    shares = weights[index] / weights.amax()
    rounded = shares.float().clamp(min=torch.finfo(torch.float32).tiny).to(shares)
    return index, torch.where(shares > 0.0, rounded, 0.0)


def copies(x: Tensor, r: Tensor, y: Tensor) -> tuple[Tensor, Tensor] | None:
    """A number for each row, [n], that its copies share, and the first row of each number.

    None where there are no copies. Numbers follow the order of the rows. Rows are copies if all of
    their columns are equal to 1e-4 standard deviations. Rows that coarse columns make equal, as
    doses do, are none: there, equal covariates often have other outcomes.
    """
    inputs, outcome = _hashed(*x.T, *r.T), _hashed(*y.reshape(len(y), -1).T)
    _, pattern, often = inputs.unique(return_inverse=True, return_counts=True)
    each, label = torch.stack([pattern, outcome], 1).unique(dim=0, return_inverse=True)
    repeated = int((often > 1).sum())
    mixed = int((each[:, 0].bincount() > 1).sum())
    if len(each) == len(y) or mixed > _MIXED * repeated:
        return None
    if len(y) - len(each) > _FEW * len(y):
        warn_user(
            f"{len(y) - len(each):,} of {len(y):,} rows are copies of others: they are held out "
            "together; sample_weight says more simply how much a row counts"
        )
    first = torch.full((len(each),), len(y)).scatter_reduce(0, label, torch.arange(len(y)), "amin")
    return first.argsort().argsort()[label], first.sort().values


def _hashed(*columns: Tensor) -> Tensor:
    """A whole number for each row of columns, [n] each, equal for rows that are nearly equal."""
    found, g = torch.zeros((), dtype=torch.long), torch.Generator().manual_seed(0)
    for column in columns:
        finite = column.isfinite()  # of an open interval of times an end is not
        known = column.double().where(finite, 0.0)
        spread = known.std(correction=0).clamp(min=torch.finfo(torch.float64).tiny)
        steps = (known / (_NEARLY * spread)).round().clamp(-(2.0**62), 2.0**62).long()
        factor, of_end = torch.randint(1, 2**61, (2,), generator=g) * 2 + 1
        found = found + steps * factor + finite * of_end
    return found
