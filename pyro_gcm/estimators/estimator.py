"""What the estimators have in common: from a table to a fitted model and its predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pyro_gcm._utils.options import flag
from pyro_gcm._utils.table import Table, as_frame, read_table
from pyro_gcm._utils.threads import one_thread
from pyro_gcm._utils.validation import positive_int
from pyro_gcm._utils.warn import told_once, warn_user
from pyro_gcm.estimators.bands import Bands, bands_of, check_level
from pyro_gcm.estimators.base_rate import match_base_rate
from pyro_gcm.estimators.constraints import categories, directions
from pyro_gcm.estimators.encoding import TableEncoding
from pyro_gcm.estimators.kinds import kind_of
from pyro_gcm.estimators.training import Recipe, TrainingRows, trained
from pyro_gcm.models import GCM, IGCM

Array = npt.NDArray[np.float64]
_ARROWS = {1: "rises with it", -1: "falls with it"}
#: Columns that are listed, at most.
_MOST_LISTED = 20


class MonotoneEstimator(BaseEstimator):
    """A model of one kind behind the interface of scikit-learn.

    A subclass names its options, says how a model is made of them (`_recipe`), and what y is.
    """

    response: str
    #: Whether predictions are probabilities of an event.
    predicts_probability = False
    monotonic_cst: Any
    categorical_features: Any
    bootstrap: int
    warm_start: bool
    random_state: Any
    device: Any
    threads: Any
    verbose: Any
    encoding_: TableEncoding
    model_: GCM | IGCM
    bootstrap_models_: list[GCM | IGCM]
    n_iter_: int
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]
    training_: dict[str, float]

    def __init_subclass__(cls, **options: Any) -> None:
        """Every public method of a subclass runs on one thread, and `fit` with gradients."""
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                made = method
                if name == "fit":
                    made = told_once()(torch.inference_mode(False)(method))
                setattr(cls, name, one_thread()(made))

    def _recipe(
        self, rows: int, x_dim: int, r_dim: int, ordered: Sequence[Sequence[int]]
    ) -> Recipe:
        """How the model is made and trained."""
        raise NotImplementedError

    def _settled(
        self, rows: TrainingRows, ordered: Sequence[Sequence[int]], **common: Any
    ) -> MonotoneEstimator:
        """The estimator whose options settle what this one leaves to the rows.

        :param ordered: as `_recipe` takes it.
        :param common: seed and options of every `fit`.
        """
        return self

    def new_response(self) -> Any:
        """The response of a new model, as `GCM` takes it."""
        return self.response

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """What notebooks show: the diagram of scikit-learn, and a short table once fitted."""
        diagram = super()._repr_html_  # refused where scikit-learn is set to show text
        return lambda: diagram() + (_short_form(self) if hasattr(self, "model_") else "")

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_()
        return bundle

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    # Fitting

    def _learn(self, columns: Table, y: Tensor, weight: Array | None) -> None:
        """Learn the encoding of the columns and train the model."""
        count = positive_int("bootstrap", self.bootstrap, minimum=0)
        goes_on = flag("warm_start", self.warm_start) and hasattr(self, "model_")
        if goes_on:
            encoding = self.encoding_
            self._check_warm_start(count)
        else:
            signs = directions(self.monotonic_cst, len(columns), columns.names)
            chosen = categories(self.categorical_features, columns, columns.names)
            encoding = TableEncoding.learn(columns, signs, chosen)
            if empty := [column.label for column in columns if column.is_missing.all()]:
                warn_user(f"X has no value in {', '.join(empty)}: nothing can be learned from it")
        weights = None if weight is None else torch.tensor(weight)
        x, r = encoding(columns)
        rows = TrainingRows(x, r, y, weights)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        common: Any = {name: getattr(self, name) for name in ("device", "threads")}
        common["progress"] = bool(self.verbose)
        options = self if goes_on else self._settled(rows, encoding.ordered, seed=seed, **common)
        recipe = options._recipe(len(rows.counted), x.shape[1], r.shape[1], encoding.ordered)
        before = [self.model_, *self.bootstrap_models_] if goes_on else [None] * (1 + count)
        common["widths"] = [code.width for code in encoding.columns if code.width] or [1]
        model, result = trained(recipe, rows, seed=seed, before=before[0], **common)
        samples = []
        for number, earlier in enumerate(before[1:], 1):
            drawn = rows.resampled(seed + number)
            own: Any = {"seed": seed + number, "like": result, "before": earlier}
            samples.append((trained(recipe, drawn, **own, **common)[0], drawn))
        if self.response == "binary":
            for made, seen in [(model, rows), *samples]:
                match_base_rate(made, seen)
        if not goes_on:
            self._keep_names(columns)
        self.bootstrap_models_ = [made for made, _ in samples]
        self.encoding_, self.model_, self.n_iter_ = encoding, model, len(result.rows)
        self.training_ = {"rows": len(y), "loss": float(result.rows[-1]["loss"])}

    def _check_warm_start(self, bootstrap: int) -> None:
        """Refuse options that a warm start cannot change, rather than leave them out."""
        known = getattr(self, "feature_names_in_", None)
        wanted = directions(self.monotonic_cst, self.n_features_in_, known)
        signs = [column.sign for column in self.encoding_.columns]
        if wanted != signs:
            raise ValueError(
                f"monotonic_cst must be that of the first fit, {signs} for the columns, in a warm "
                f"start, got {wanted}"
            )
        if bootstrap != len(self.bootstrap_models_):
            raise ValueError(
                f"bootstrap must be that of the first fit, {len(self.bootstrap_models_)}, in a "
                f"warm start, got {bootstrap}"
            )

    def _columns_to_fit(self, X: Any) -> Table:
        """The columns of the training rows; their names are compared in a warm start."""
        if flag("warm_start", self.warm_start) and hasattr(self, "model_"):
            return self._columns(X)
        return read_table(X, self)

    def _keep_names(self, columns: Table) -> None:
        """After the training: a fit that fails leaves the last one."""
        self.n_features_in_ = len(columns)
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # Predicting

    def _columns(self, X: Any) -> Table:
        """The columns of a table in the order of the training rows, found by name.

        :raises ValueError: for a column that is missing or unknown.
        """
        self._check_fitted()
        known = getattr(self, "feature_names_in_", None)
        return read_table(X, self).like(known, self.n_features_in_, type(self).__name__)

    def as_read(self, X: Any) -> Any:
        """A table whose columns with a direction have the numbers, or the levels, of `fit`.

        A table of another kind may have neither: Arrow and polars give levels of a category no
        order, a file gives them as text, and booleans with gaps come as objects.

        :param X: a table of n rows.
        :returns: the columns of `fit` in their order, a DataFrame of pandas; X itself where it has
            no names.
        """
        import pandas as pd

        columns, frame = self._columns(X), as_frame(X)
        if frame is None or columns.names is None:
            return X
        found: pd.DataFrame = frame.to_pandas()[columns.names].copy()
        for name, column, code in zip(columns.names, columns, self.encoding_.columns, strict=True):
            if code.sign and code.kind == "number":
                found[name] = code.numbers(column)
            elif code.sign:
                found[name] = pd.Categorical(column.as_labels(), code.levels, ordered=True)
        return found

    def _rows(self, X: Any) -> tuple[Tensor, Tensor]:
        columns = self._columns(X)
        x, r = self.encoding_(columns)
        return x, r

    def _predict(self, X: Any) -> Array:
        return self._of_rows(*self._rows(X))

    def _of_rows(self, x: Tensor, r: Tensor, model: GCM | IGCM | None = None) -> Array:
        """Predictions [n] of the model, or of another one."""
        return _numbers((self.model_ if model is None else model).predict(x, r))

    @one_thread()
    def predict_bands(self, X: Any, level: float = 0.9) -> Bands:
        """Bands around the predictions: Pr(y = 1), or the mean of y.

        They show how far the members of the model disagree, or, with `bootstrap`, how far models
        differ that were fitted on bootstrap samples. Both are uncertainty about the prediction
        itself: a band holds no share of the outcomes.

        :param X: a table of n rows.
        :param level: share of the members or models between the ends of a band, at least.
        :raises ValueError: for a model of neither kind.
        """
        level = check_level("level", level)
        draws, kind = self._draws(*self._rows(X))
        return bands_of(draws, kind, level)

    def _draws(self, x: Tensor, r: Tensor) -> tuple[Array, str]:
        """Predictions [S, n] of models or members, and which of them they are."""
        if self.bootstrap_models_:
            of_models = [self._of_rows(x, r, model) for model in self.bootstrap_models_]
            return np.stack(of_models), "bootstrap"
        if self.model_.members:
            return _numbers(self.model_.predict_draws(x, r)), "members"
        raise ValueError(
            "bands need bootstrap=, a number of models to be fitted on bootstrap samples, or a GCM "
            "with prior='members', whose members disagree"
        )


def _numbers(values: Tensor) -> Array:
    return values.double().cpu().numpy()


def _short_form(estimator: MonotoneEstimator) -> str:
    """The kind, the columns with directions, the training rows and the loss, as HTML."""
    codes = estimator.encoding_.columns
    names = getattr(estimator, "feature_names_in_", range(len(codes)))
    imposed = [(name, code) for name, code in zip(names, codes, strict=True) if code.sign]
    rows = [("kind", kind_of(estimator))]
    for name, code in imposed[:_MOST_LISTED]:
        range_ = f", {code.low:g} to {code.high:g} in training" if code.kind == "number" else ""
        rows.append((str(name), f"prediction {_ARROWS[code.sign]}{range_}"))
    if len(imposed) > _MOST_LISTED:
        rows.append(("further columns with a direction", str(len(imposed) - _MOST_LISTED)))
    rows.append(("columns without a direction", str(len(codes) - len(imposed))))
    training = estimator.training_
    if "rows" in training:
        rows.append(("training rows", f"{training['rows']:,}"))
    rows.append(("epochs", f"{estimator.n_iter_:,}"))
    if "loss" in training:
        rows.append(("loss a row in the last epoch", f"{training['loss']:.4g}"))
    left = ' style="text-align: left"'
    cells = "".join(
        f"<tr><th{left}>{escape(name)}</th><td{left}>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table><caption{left}>{type(estimator).__name__}, fitted</caption>{cells}</table>"
