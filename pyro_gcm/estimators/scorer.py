"""A fitted estimator as one function of a batch, which any process can be given."""

from __future__ import annotations

import functools
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import share, shown
from pyro_gcm.data.tables import as_frame, is_record_batch
from pyro_gcm.estimators.kinds import (
    Columns,
    has_quantiles,
    in_blocks,
    predictions,
    quantile_names,
)

#: Estimators of this process that are kept.
_MOST = 16
_LOADING = threading.Lock()


class Scorer:
    """Predictions of a fitted estimator for one batch of rows after another.

    `estimator.scorer()` makes one. It is a function of a batch: an Arrow table or record batch, a
    DataFrame of pandas or polars, or a mapping from names to arrays, with the columns of `fit` in
    any order, and others. It returns the columns of predictions in the kind that it was given. What
    it predicts for a row does not depend on the batch: all engines give the same bits on the same
    kind of machine.

    It can be pickled, and is then the files that `pyro_gcm.save` writes: a worker needs no folder,
    and loads them once a process, at its first batch.

    :param estimator: a fitted estimator of a table whose columns have names.
    :param keep: columns of the batch to copy to the result, such as an identifier.
    :param quantiles: of y, or of the time of an event, in (0, 1); a column each.
    :param level: of bands around the monotone prediction, columns `lower` and `upper`; None for
        none.
    :raises ValueError: for an estimator that was fitted to an array, one that has no quantiles, and
        names that are there twice.
    :raises sklearn.exceptions.NotFittedError: before `fit`.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        keep: Sequence[str] = (),
        quantiles: Sequence[float] = (),
        level: float | None = None,
    ) -> None:
        if not isinstance(quantiles, Sequence | np.ndarray):
            raise TypeError(f"quantiles must be a sequence of numbers, got {shown(quantiles)}")
        for each in quantiles:
            share("quantiles", each, "numbers")
        quantile_names(quantiles)
        if level is not None:
            share("level", level)
        import pandas as pd

        self.keep, self.quantiles, self.level = tuple(keep), tuple(quantiles), level
        self._files = _files_of(estimator)
        self.names: tuple[str, ...] = tuple(
            str(name) for name in getattr(estimator, "feature_names_in_", ())
        )
        if not self.names:
            raise ValueError(
                "estimator must have been fitted to a DataFrame, whose columns have names, and "
                "this one was fitted to an array"
            )
        if self.quantiles and not has_quantiles(estimator):
            raise ValueError(
                f"quantiles are of numbers and times, and a {type(estimator).__name__} has none"
            )
        nothing = pd.DataFrame({name: [np.nan] for name in self.names})
        self._example = self._scored(nothing)
        same = [name for name in self.keep if name in self._example or self.keep.count(name) > 1]
        if same:
            raise ValueError(f"keep has {same[0]!r}, which the result has already")

    @property
    def kinds(self) -> Mapping[str, np.dtype[Any]]:
        """The names of the columns of predictions, with their numpy types; object for text."""
        return {name: column.dtype for name, column in self._example.items()}

    @property
    def ddl(self) -> str:
        """The columns of predictions as Spark writes a schema, such as "probability double"."""
        names = {"f": "double", "b": "boolean", "i": "bigint", "O": "string"}
        return ", ".join(f"`{name}` {names[kind.kind]}" for name, kind in self.kinds.items())

    @one_thread()
    def __call__(self, batch: Any) -> Any:
        """The predictions for a batch of n rows, in its kind: n rows in the same order.

        :raises TypeError: for a batch that is no table.
        :raises ValueError: for a batch that lacks columns, by their names, and for values that the
            estimator refuses.
        """
        frame = as_frame(batch, "batch")
        if frame is None:
            raise TypeError(
                "batch must be an Arrow table or record batch, a DataFrame of pandas or polars, or "
                f"a mapping from names to columns, got {type(batch).__name__}"
            )
        lacking = [name for name in (*self.names, *self.keep) if name not in frame.columns]
        if lacking:
            raise ValueError(f"batch lacks the columns {lacking}; it has {list(frame.columns)}")
        columns, read = self._example, frame.select(*self.names)
        if len(frame):
            columns = in_blocks(lambda rows: self._scored(read[rows].to_native()), len(frame))
        return _in_kind_of(batch, frame, self.keep, columns)

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The predictions for each of some batches, as they come; Spark's `mapInArrow` takes this.

        :raises TypeError: as a call does; ValueError likewise.
        """
        for batch in batches:
            yield self(batch)

    def _scored(self, X: Any) -> Columns:
        found = predictions(self._estimator(), X, self.quantiles, self.level)
        # Labels of any size of integer as one type that every engine has.
        types: dict[str, Any] = {"i": np.int64, "u": np.int64, "U": object}
        return {n: v.astype(types.get(v.dtype.kind, v.dtype), copy=False) for n, v in found.items()}

    def _estimator(self) -> Any:
        """The estimator, loaded once a process."""
        with _LOADING:
            return _loaded(self._files)


def _in_kind_of(batch: Any, frame: Any, kept: Sequence[str], columns: Mapping[str, Any]) -> Any:
    """Columns beside those of the frame that are kept, in the kind of the batch.

    :param frame: of the batch.
    :param columns: for each row of the frame; for a frame without rows, of any row.
    """
    import narwhals as nw

    values = {
        name: column.tolist() if column.dtype.kind == "O" else column
        for name, column in columns.items()
    }
    made = nw.from_dict(values, backend=frame.implementation)[: len(frame)]
    if frame.implementation.is_pandas():
        made = nw.from_native(made.to_native().set_axis(frame.to_native().index))
    native = nw.concat([frame.select(*kept), made], how="horizontal") if kept else made
    native = native.to_native()
    if isinstance(batch, Mapping):
        return {name: native[name].to_numpy() for name in native.columns}
    if not is_record_batch(batch):
        return native
    import pyarrow as pa

    whole = native.combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], schema=native.schema)


def _files_of(estimator: Any) -> tuple[tuple[str, bytes], ...]:
    """The names and contents of the files of a saved estimator."""
    from pyro_gcm.io import save

    with tempfile.TemporaryDirectory() as place:
        folder = save(estimator, Path(place) / "model")
        return tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()))


@functools.lru_cache(_MOST)
def _loaded(files: tuple[tuple[str, bytes], ...]) -> Any:
    from pyro_gcm.io import load

    with tempfile.TemporaryDirectory() as place:
        for name, content in files:
            (Path(place) / name).write_bytes(content)
        return load(place)
