"""The rows that `fit` trains on: tensors in memory, or rows read again in every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.validation import (
    ArrayLike,
    WrongCell,
    checked_data,
    column_names,
    kind,
    positive_int,
    vector,
)
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.inference.reading import Outcomes, StoryModel
from pyro_gcm.streams import ShuffledRows, Survey, open_source, survey
from pyro_gcm.streams.blocks import Block
from pyro_gcm.training import TrainingOptions, TrainingRows, rows_in_memory, selected
from pyro_gcm.training.batches import RowsInMemory
from pyro_gcm.training.cross_fit import folds_of

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

    Attributes: `weighted`, whether the last column of a batch is a factor on the loss of each row;
    `names`, those of the columns of x and r where they are known; `given`, the rows that were given
    for validation, `held_out` of them, and `share`, that of the others which is held out; `rows`,
    their number, None where it is not known yet; `outcomes`, y of training rows, all of them or a
    sample, and their weights or None; `fold`, of each row where members leave some out.
    """

    weighted = False
    held_out = 0
    fold: Tensor | None = None
    given: dict[str, Tensor] | None = None

    def __init__(self, model: StoryModel, validation: Any) -> None:
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
        self.held_out = len(self.given["y"])

    def _checked(self, *columns: ArrayLike) -> dict[str, Tensor]:
        return checked_data(self.model, *columns, required=_ALL, device=_CPU)


class DataInMemory(TrainingData):
    """Tensors, arrays or data frames."""

    def __init__(
        self,
        model: StoryModel,
        columns: Sequence[ArrayLike | None],
        sample_weight: ArrayLike | None,
        groups: Any,
        validation: Any,
    ) -> None:
        super().__init__(model, validation)
        self.columns, self.weights = self._checked(*columns), None
        model.response.check_latent(model, self.columns["y"])
        self.groups = None if groups is None else _labels(groups, len(self.columns["x"]))
        if sample_weight is not None:
            index, weights = counted(checked_weights(sample_weight, len(self.columns["x"])))
            self.columns = {name: column[index] for name, column in self.columns.items()}
            self.weighted = bool((weights != weights[0]).any())
            self.weights = weights if self.weighted else None
            self.groups = None if self.groups is None else self.groups[index]
        self.names = {name: column_names(columns[i]) for i, name in enumerate("xr")}
        self.rows = len(self.columns["y"])
        if self.given is not None:
            self.columns = {n: torch.cat([self.columns[n], self.given[n]]) for n in self.columns}

    def split_rows(self, options: TrainingOptions) -> None:
        """Choose the order of the rows, and those that are held out."""
        self.order = torch.Generator().manual_seed(options.seed)
        self.parts = options.parts(self.rows + self.held_out, self.order)
        y, at, weights = self.columns["y"], self.parts[0], self.weights
        if options.cross_fit is not None:
            self.fold = folds_of(y, options.cross_fit.members, self.order, self.groups)
        _warn_if_alike(y[: self.rows], self.model.response)
        self.outcomes = y[at], None if weights is None else weights[at]

    def learn_units(self) -> None:
        """Give the model the units of the training rows."""
        x, r, y = selected([self.columns[name] for name in _ALL], self.parts[0])
        self.model.learn_units(x, r, y)

    def of_run(self, options: TrainingOptions, dtype: torch.dtype) -> TrainingRows:
        """The batches.

        :param dtype: of the weights of rows.
        """
        data = list(self.columns.values())
        if self.fold is not None:
            data.append(self.fold)
        if self.weights is not None:
            data.append(_in_parts(self.weights, self.parts, dtype))
        rows = rows_in_memory(data, self.parts, options.batch_size, self.order, options.target)
        weighted = {"weights of rows": self.weights is not None}
        return rows._replace(
            identity={f"columns of {k}": v for k, v in self.names.items()} | weighted
        )


def checked_weights(sample_weight: ArrayLike, rows: int) -> Tensor:
    """Weights of the rows in float64, on the CPU.

    :raises ValueError: unless there is a finite weight of at least 0 for every row, not all 0.
    """
    weights = vector("sample_weight", sample_weight, _CPU).double()
    if len(weights) != rows:
        raise ValueError(
            f"sample_weight must have a weight for each of the {rows} rows, got {len(weights)}"
        )
    if (weights < 0.0).any():
        first = int((weights < 0.0).nonzero()[0])
        raise ValueError(
            f"sample_weight must be at least 0, got {float(weights[first]):g} in row {first}"
        )
    if not weights.any():
        raise ValueError("sample_weight must have a weight above 0, got only 0")
    return weights


def counted(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that count, each as often as it does, and their weights, the largest of them 1.

    Whole numbers are counts: a row of weight 3 is there three times. Others, and those that add up
    to more than `MOST_COUNTED`, are relative: every row of a weight above 0 is there once.

    :param weights: at least 0, not all 0, [n].
    :returns: indices of rows in their order, and a weight above 0 for each.
    """
    if weights.sum() <= MOST_COUNTED and (weights == weights.round()).all():
        index = torch.arange(len(weights)).repeat_interleave(weights.long())
        if len(index) > _OFTEN * len(weights):
            warn_user(
                "sample_weight has whole numbers, which are counts: "
                f"{len(weights):,} rows count as {len(index):,}; divide them by their mean if only "
                "their ratios matter"
            )
        return index, weights.new_ones(len(index))
    index = weights.nonzero()[:, 0]
    return index, weights[index] / weights.amax()


def _labels(groups: Any, rows: int) -> Tensor:
    """Numbers [n] of the labels of rows.

    :raises ValueError: unless there is a label for every row.
    """
    labels = np.asarray(groups)
    if labels.shape != (rows,):
        shape = list(labels.shape)
        raise ValueError(f"groups must have a label for each of the {rows} rows, got shape {shape}")
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])


def _in_parts(weights: Tensor, parts: tuple[Tensor, Tensor], dtype: torch.dtype) -> Tensor:
    """Weights with a mean of 1 over the rows of each part, [n].

    :param weights: above 0, of the first rows; further rows count equally.
    :param parts: row indices of the training part and of the validation part.
    :param dtype: of the result, in which no weight becomes 0.
    """
    whole = weights.new_ones(sum(map(len, parts)))
    whole[: len(weights)] = weights
    for part in parts:
        if len(part):
            whole[part] /= whole[part].mean()
    return whole.to(dtype).clamp(min=torch.finfo(dtype).tiny)


class StreamedData(TrainingData):
    """Rows that are read in every epoch, of which a window is in memory.

    :param names: of the columns of x, r and y, or None where the data gives batches.
    :param memory: bytes that rows may take: half of it the window in which they are shuffled, a
        quarter those that are held out, and an eighth a sample for quantiles.
    """

    found: Survey

    def __init__(
        self,
        model: StoryModel,
        data: Any,
        names: Sequence[Any],
        validation: Any,
        memory: int,
    ) -> None:
        super().__init__(model, validation)
        self.memory = positive_int("memory", memory, minimum=1 << 20)
        self.source = open_source(data, *names)
        self.given_names = dict(zip(_ALL, names, strict=True))
        self.names = {name: n and list(n) for name, n in zip("xr", names, strict=False)}
        self.rows = self.source.rows
        self._ends: list[Tensor] = []  # the lowest and the highest outcome so far

    def split_rows(self, options: TrainingOptions) -> None:
        """Read all rows once, and check them."""
        row_bytes = 8 * (self.model.x_dim + self.model.r_dim + 1)
        self.found = survey(
            self.source,
            seed=options.seed,
            share=self.share,
            sample_rows=max(1, min(SAMPLE_ROWS, self.memory // 8 // row_bytes)),
            most_bytes=self.memory // 4,
            check=self._check,
            progress=options.progress,
        )
        self.rows, self.outcomes = self.found.rows, (self.found.sample["y"], None)
        _warn_if_alike(self._ends[0], self.model.response)

    def _check(self, block: Block, first: int) -> None:
        try:
            checked = self._checked(block["x"], block["r"], block["y"])
            self.model.response.check_latent(self.model, checked["y"])
        except ValueError as error:
            if isinstance(error, WrongCell) and error.argument:
                raise ValueError(f"{error.told} in {self._place(first, error)}") from error
            where = self.source.place(first)
            raise ValueError(f"{error}; rows are counted from {where}") from error
        y = torch.cat([*self._ends, checked["y"]])
        self._ends = [torch.stack([y.amin(0), y.amax(0)])]

    def _place(self, first: int, error: WrongCell) -> str:
        names = self.given_names[error.argument]
        if names is None:  # of batches
            return self.source.place(first + error.row, error.column)
        column = names if isinstance(names, str) else names[error.column or 0]
        return self.source.place(first + error.row, column)

    @property
    def window_rows(self) -> int:
        """Rows that are shuffled together."""
        return max(1, self.memory // 2 // self._row_bytes)

    @property
    def _row_bytes(self) -> int:
        return sum(c[:1].nbytes for c in self.found.sample.values())

    def learn_units(self) -> None:
        """Mean and spread of all rows; quantiles from a sample of them."""
        x, r, y = (self.found.sample[name] for name in _ALL)
        self.model.learn_units(x, r, y, moments={"x": self.found.x, "r": self.found.r})

    def of_run(self, options: TrainingOptions, dtype: torch.dtype) -> TrainingRows:
        """See `DataInMemory`."""
        training = ShuffledRows(
            self.source,
            self.found.rows,
            seed=options.seed,
            batch_size=options.batch_size,
            buffer_rows=self.window_rows,
            share=self.share,
            checksums=self.found.checksums,
            device=options.target,
        )
        held_out = self.found.validation if self.given is None else self.given
        columns = [held_out[name].to(options.target) for name in _ALL]
        index = torch.arange(len(columns[0]), device=options.target)
        validation = RowsInMemory(columns, index, options.batch_size)
        identity = {f"{name} of data": value for name, value in training.identity.items()}
        identity["memory"] = identity.pop("buffer_rows of data") * self._row_bytes
        return TrainingRows(training, validation, identity)


def _warn_if_alike(y: Tensor, response: Outcomes) -> None:
    """Warn where all rows have one outcome, or no event.

    :param y: rows [n] or [n, D] as `response.outcome` gives them.
    """
    if found := response.nothing_to_learn(y.amin(0), y.amax(0)):
        warn_user(found)
