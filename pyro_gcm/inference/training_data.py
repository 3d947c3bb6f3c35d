"""The rows that `fit` trains on: tensors in memory, or rows read again in every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.validation import (
    ArrayLike,
    WrongCell,
    as_tensor,
    checked_data,
    column_names,
    kind,
)
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.streams import ShuffledRows, Source, Survey, survey
from pyro_gcm.streams.sources import Block
from pyro_gcm.training import RowsInMemory, TrainingOptions, selected
from pyro_gcm.training.batches import Batches

_CPU = torch.device("cpu")
#: Most rows from which quantiles are taken, of data that are read in every epoch.
SAMPLE_ROWS = 200_000
#: Up to this total, weights of whole numbers are counts of rows.
MOST_COUNTED = 1_000_000
#: Counts that are larger on average are told of: they may be weights of a survey.
_OFTEN = 20
#: Columns that a row must have.
_ALL = "xry"


class TrainingData:
    """The rows of one run; a subclass says where they are.

    Attributes: `weights`, of the rows, [n], or of each member for them, [n, K], None where they are
    equal, and otherwise the last column of a batch; `names`, those of the columns of x and r where
    they are known; `given`, the rows that were given for validation, and `share`, that of the
    others which is held out; `rows`, their number, None where it is not known yet; `outcomes`, y of
    training rows, all of them or a sample, and their weights or None.
    """

    weights: Tensor | None = None
    given: dict[str, Tensor] | None = None

    def __init__(self, model: Any, validation: Any) -> None:
        self.model, self.share = model, validation
        if isinstance(validation, Real):
            return
        if not isinstance(validation, list | tuple) or len(validation) != 3:
            raise ValueError(
                "validation must be a share of the rows in [0, 1) or rows (x, r, y), got "
                f"{kind(validation)}"
            )
        try:
            self.given, self.share = self._checked(*validation), 0.0
        except ValueError as error:
            raise ValueError(f"validation: {error}") from error

    @property
    def of_members(self) -> bool:
        """Whether rows have a weight for each member."""
        return self.weights is not None and self.weights.dim() == 2

    def _checked(self, *columns: ArrayLike) -> dict[str, Tensor]:
        return checked_data(self.model, *columns, required=_ALL, device=_CPU)


class DataInMemory(TrainingData):
    """Tensors, arrays or data frames."""

    def __init__(
        self,
        model: Any,
        columns: Sequence[ArrayLike | None],
        sample_weight: ArrayLike | None,
        validation: Any,
    ) -> None:
        super().__init__(model, validation)
        self.columns = self._checked(*columns)
        model.response.check_latent(model, self.columns["y"])
        if sample_weight is not None:
            weights = checked_weights(sample_weight, len(self.columns["y"]), model.members)
            index, weights = counted(weights)
            self.columns = {name: column[index] for name, column in self.columns.items()}
            self.weights = None if bool((weights == weights.flatten()[0]).all()) else weights
        self.names = {name: column_names(columns[i]) for i, name in enumerate("xr")}
        self.rows = len(self.columns["y"])

    def split_rows(self, options: TrainingOptions) -> None:
        """Choose the order of the rows, and those that are held out."""
        self.order = torch.Generator().manual_seed(options.seed)
        self.learn, self.held_out = options.parts(self.rows, self.order)
        y, weights = self.columns["y"], self.weights
        if weights is not None and weights.dim() == 2:
            self.held_out, weights = weights.eq(0.0).any(1).nonzero()[:, 0], weights.mean(1)
        _warn_if_alike(y, self.model.response)
        self.outcomes = y[self.learn], None if weights is None else weights[self.learn]

    def learn_units(self) -> None:
        """Give the model the units of the training rows."""
        x, r, y = selected([self.columns[name] for name in _ALL], self.learn)
        self.model.learn_units(x, r, y)

    def batches(self, options: TrainingOptions, dtype: torch.dtype) -> tuple[Batches, Batches]:
        """The training rows and those that are held out.

        :param dtype: of the weights of rows.
        """
        size, learn, held_out = options.batch_size, self.learn, self.held_out
        data = list(self.columns.values())
        if self.weights is not None:
            data.append(_in_parts(self.weights, (learn, held_out), dtype))
        data = [column.to(options.target) for column in data]
        training = RowsInMemory(data, learn, size, self.order)
        if self.given is None:
            return training, RowsInMemory(data, held_out, size)
        beside = [column.to(options.target) for column in self.given.values()]
        if self.weights is not None:  # rows that are given count equally
            beside.append(data[-1].new_ones(len(beside[0])))
        return training, RowsInMemory(beside, torch.arange(len(beside[0])), size)


def checked_weights(sample_weight: ArrayLike, rows: int, members: int = 0) -> Tensor:
    """Weights of the rows in float64, on the CPU.

    :param members: number of members, each of which may have a weight of its own for a row.
    :raises ValueError: unless there is a finite weight of at least 0 for every row, not all 0.
    """
    weights = as_tensor("sample_weight", sample_weight, _CPU).double()
    weights = weights[:, 0] if weights.shape == (rows, 1) else weights
    shapes = {(rows,), (rows, members)} if members else {(rows,)}
    if weights.shape not in shapes:
        raise ValueError(
            f"sample_weight must have a weight for each of the {rows} rows, got shape "
            f"{tuple(weights.shape)}"
        )
    if (wrong := ~(weights >= 0.0) | weights.isinf()).any():
        first = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"sample_weight must be finite and at least 0, got {float(weights[tuple(first)]):g} in "
            f"row {first[0]}"
        )
    if not weights.any():
        raise ValueError("sample_weight must have a weight above 0, got only 0")
    return weights


def counted(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that count, each as often as it does, and their weights, the largest of them 1.

    Whole numbers are counts: a row of weight 3 is there three times. Others, and those that add up
    to more than `MOST_COUNTED`, are relative: every row of a weight above 0 is there once; so are
    those with a weight for each member.

    :param weights: at least 0, not all 0, [n] or [n, K].
    :returns: indices of rows in their order, and a weight above 0 for each.
    """
    whole = weights.dim() == 1 and weights.sum() <= MOST_COUNTED
    if whole and (weights == weights.round()).all():
        index = torch.arange(len(weights)).repeat_interleave(weights.long())
        if len(index) > _OFTEN * len(weights):
            warn_user(
                "sample_weight has whole numbers, which are counts: "
                f"{len(weights):,} rows count as {len(index):,}; divide them by their mean if only "
                "their ratios matter"
            )
        return index, weights.new_ones(len(index))
    index = weights.reshape(len(weights), -1).any(1).nonzero()[:, 0]
    return index, weights[index] / weights.amax()


def _in_parts(weights: Tensor, parts: tuple[Tensor, Tensor], dtype: torch.dtype) -> Tensor:
    """Weights with a mean of 1 over the rows of each part, [n] or [n, K].

    :param parts: row indices of the training part and of the validation part.
    :param dtype: of the result, in which no weight becomes 0.
    """
    scaled = weights.clone()
    for part in parts[:1] if weights.dim() == 2 else parts:
        if len(part):
            scaled[part] /= scaled[part].mean()
    least = torch.finfo(dtype).tiny
    return torch.where(weights > 0.0, scaled.clamp(min=least), 0.0).to(dtype)


class StreamedData(TrainingData):
    """Rows that are read in every epoch, of which a window is in memory."""

    found: Survey

    def __init__(self, model: Any, source: Source, validation: Any) -> None:
        super().__init__(model, validation)
        self.source, self.rows = source, source.rows
        self.names = {name: source.names[name] for name in "xr"}
        self._ends: list[Tensor] = []  # the lowest and the highest outcome so far

    def split_rows(self, options: TrainingOptions) -> None:
        """Read all rows once, and check them."""
        row_bytes = 8 * (self.model.x_dim + self.model.r_dim + 1)
        self.found = survey(
            self.source,
            seed=options.seed,
            share=self.share,
            sample_rows=max(1, min(SAMPLE_ROWS, self.source.memory // 8 // row_bytes)),
            check=self._check,
            progress=options.progress,
        )
        self.rows, self.outcomes = self.found.rows, (self.found.sample["y"], None)
        _warn_if_alike(self._ends[0], self.model.response)

    def _check(self, block: Block, first: int) -> None:
        try:
            checked = self._checked(block["x"], block["r"], block["y"])
            self.model.response.check_latent(self.model, checked["y"])
        except WrongCell as error:
            place = self.source.place(first + error.row, error.argument or "y", error.column)
            raise ValueError(f"{error.told} in {place}") from error
        except ValueError as error:
            place = self.source.place(first, "", None)
            raise ValueError(f"{error}; rows are counted from {place}") from error
        y = torch.cat([*self._ends, checked["y"]])
        self._ends = [torch.stack([y.amin(0), y.amax(0)])]

    def learn_units(self) -> None:
        """Mean and spread of all rows; quantiles from a sample of them."""
        x, r, y = (self.found.sample[name] for name in _ALL)
        self.model.learn_units(x, r, y, moments={"x": self.found.x, "r": self.found.r})

    def batches(self, options: TrainingOptions, dtype: torch.dtype) -> tuple[Batches, Batches]:
        """See `DataInMemory`."""
        row_bytes = sum(c[:1].nbytes for c in self.found.sample.values())
        training = ShuffledRows(
            self.source,
            self.found,
            seed=options.seed,
            batch_size=options.batch_size,
            window=max(1, self.source.memory // 2 // row_bytes),
            share=self.share,
            device=options.target,
        )
        held_out = self.found.validation if self.given is None else self.given
        columns = [held_out[name].to(options.target) for name in _ALL]
        return training, RowsInMemory(columns, torch.arange(len(columns[0])), options.batch_size)


def _warn_if_alike(y: Tensor, response: Any) -> None:
    """Warn where all rows have one outcome, or no event.

    :param y: rows [n] or [n, D] as `response.outcome` gives them.
    """
    if found := response.nothing_to_learn(y.amin(0), y.amax(0)):
        warn_user(found)
