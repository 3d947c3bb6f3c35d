"""Fitted boosters of four libraries: scores of their first trees, and files without pickle."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.threads import one_thread_of_trees

Array = npt.NDArray[np.float64]


class _Library(NamedTuple):
    trees: Callable[[Any], int]
    score: Callable[[Any, Array, int], Any]
    extension: str = ""  # of a file; none for a library that has no format but pickle
    dump: Callable[[Any], bytes] = bytes
    parse: Callable[[bytes], Any] = bytes


def _staged(estimator: Any, inputs: Array, trees: int) -> Any:
    classifies = hasattr(estimator, "staged_decision_function")
    stages = estimator.staged_decision_function if classifies else estimator.staged_predict
    with one_thread_of_trees():
        return next(islice(stages(inputs), trees - 1, None))


def _parse_xgboost(raw: bytes) -> Any:
    model = import_module("xgboost").XGBModel()
    model.load_model(bytearray(raw))
    return model


def _dump_catboost(estimator: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        estimator.save_model(str(path), format="cbm")  # its JSON has values of 15 digits
        return path.read_bytes()


def _lightgbm(estimator: Any) -> Any:
    """The booster in an estimator of scikit-learn's kind; a file holds the booster alone."""
    return getattr(estimator, "booster_", estimator)


_LIBRARIES = {
    "sklearn": _Library(lambda estimator: estimator.n_iter_, _staged),
    "xgboost": _Library(
        lambda estimator: estimator.get_booster().num_boosted_rounds(),
        lambda estimator, inputs, trees: estimator.predict(
            inputs, output_margin=True, iteration_range=(0, trees)
        ),
        "json",
        lambda estimator: bytes(estimator.get_booster().save_raw("json")),
        _parse_xgboost,
    ),
    "lightgbm": _Library(
        lambda estimator: _lightgbm(estimator).num_trees(),
        lambda estimator, inputs, trees: estimator.predict(
            inputs, raw_score=True, num_iteration=trees
        ),
        "txt",
        lambda estimator: _lightgbm(estimator).model_to_string(num_iteration=-1).encode(),
        lambda raw: import_module("lightgbm").Booster(model_str=raw.decode()),
    ),
    "catboost": _Library(
        lambda estimator: estimator.tree_count_,
        lambda estimator, inputs, trees: estimator.predict(
            inputs,
            prediction_type="RawFormulaVal",
            ntree_end=trees,
            thread_count=estimator.get_params().get("thread_count", -1),
        ),
        "cbm",
        _dump_catboost,
        lambda raw: import_module("catboost").CatBoost().load_model(blob=raw),
    ),
}


class RawScore(NamedTuple):
    """The raw score of a fitted estimator of a library of `baselines.MonotoneBoosting`.

    It is log-odds, or a value of a continuous y. Every library adds the trees of a row one after
    the other, in the same order for every row and batch. A sum of floats in a fixed order does not
    fall where no term falls, so that the score does not fall, bit for bit, in a revenue in which no
    tree falls.

    :param library: its name there.
    :param offset: what was subtracted from the outcomes that the estimator was trained on.
    """

    library: str
    estimator: Any
    offset: float = 0.0

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return int(_LIBRARIES[self.library].trees(self.estimator))

    def __call__(self, inputs: Array, trees: int) -> Array:
        """The sum over at most so many trees, the first, [B], for inputs [B, columns]."""
        trees = min(trees, self.trees)
        values = _LIBRARIES[self.library].score(self.estimator, inputs, trees)
        return np.asarray(values, dtype=np.float64) + self.offset

    def dumped(self) -> tuple[str, bytes]:
        """The extension of a file in the format of the library, and the trees in that format.

        :raises TypeError: for a library that has no format but pickle.
        """
        library = _LIBRARIES[self.library]
        if not library.extension:
            known = sorted(name for name, of in _LIBRARIES.items() if of.extension)
            raise TypeError(
                f"library={self.library!r} cannot be saved: HistGradientBoosting has no format but "
                f"pickle; use one of {known}"
            )
        return library.extension, library.dump(self.estimator)

    @classmethod
    def parsed(cls, library: str, raw: bytes, offset: float) -> RawScore:
        """A booster that scores as the dumped one did, to the last bit."""
        return cls(library, _LIBRARIES[library].parse(raw), offset)
