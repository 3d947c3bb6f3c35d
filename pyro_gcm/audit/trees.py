"""Boosted trees in one plain form, which is read from what each library writes of its models."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


class Split(NamedTuple):
    """A row goes left if its value is at most `test`, or if its category is in that set."""

    column: int
    test: float | frozenset[int]
    missing_left: bool
    left: Tree
    right: Tree


Tree: TypeAlias = float | Split


class Forest(NamedTuple):
    """Trees, of whose sum the predictions of a model are an increasing function.

    :param dtype: the type of float to which the library rounds a value before it compares it.
    :param codes: the categories of the columns of a table, by their position, as the numbers that
        the splits have; -1 is a missing one. None where they are not known.
    :param derived: values of columns at which other features change that the trees split, too.
    """

    trees: list[Tree]
    dtype: type[np.floating[Any]]
    codes: Callable[[Any], dict[int, npt.NDArray[np.int64]]] | None
    derived: Mapping[int, frozenset[float]] = MappingProxyType({})


class Unreadable(ValueError):
    """Why a model is no sum of trees that are constant between the values of their splits."""


def read_forest(model: Any, names: Sequence[str]) -> Forest | None:
    """The trees of a fitted model of a boosting library; None of anything else.

    :param names: the columns of the table that the model takes.
    :raises Unreadable: for a boosting model that is another function of its columns.
    """
    module, kind = type(model).__module__, type(model).__name__
    if module.startswith("lightgbm.") and hasattr(model, "predict"):
        return _lightgbm(model)
    if module.startswith("xgboost.") and hasattr(model, "get_booster"):
        return _xgboost(model)
    if module.startswith("catboost."):
        return _catboost(model, len(names))
    if module.startswith("sklearn.") and kind.startswith("HistGradientBoosting"):
        return _hist_gradient_boosting(model)
    if module.startswith("ydf.") and kind == "GradientBoostedTreesModel":
        return _ydf(model, names)
    return None


def splits_of(tree: Tree) -> Iterator[Split]:
    """All splits of a tree."""
    if isinstance(tree, Split):
        yield tree
        yield from splits_of(tree.left)
        yield from splits_of(tree.right)


def _refuse(condition: object, reason: str) -> None:
    if condition:
        raise Unreadable(reason)


def _codes(levels: Sequence[Sequence[Any]], X: Any) -> dict[int, npt.NDArray[np.int64]]:
    """Categories by their position among `levels`, or the numbers that they are.

    :param levels: of each column of categories, as the model has learned them; where there are
        none, those of X.
    """
    import pandas as pd

    found, X = {}, X.to_pandas() if hasattr(X, "to_pandas") else pd.DataFrame(X)
    learned = iter(levels)
    for place, name in enumerate(X.columns):
        column = X[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            own = next(learned, ()) or column.cat.categories
            found[place] = pd.Categorical(column, categories=own).codes.astype(np.int64)
        elif pd.api.types.is_numeric_dtype(column):
            found[place] = column.astype("float64").fillna(-1).clip(-1).to_numpy().astype(np.int64)
    return found


def _lightgbm(model: Any) -> Forest:
    booster, zero = getattr(model, "booster_", model), float(np.float32(1e-35))
    dump = booster.dump_model()
    _refuse(dump["num_tree_per_iteration"] != 1, "it has several outputs")

    def tree(node: dict[str, Any]) -> Tree:
        _refuse("leaf_coeff" in node, "its leaves hold linear models (linear_tree)")
        if "leaf_value" in node:
            return float(node["leaf_value"])
        missing, test = node["missing_type"], node["threshold"]
        _refuse(missing == "Zero", "it takes 0 for a missing value (zero_as_missing)")
        ends = tree(node["left_child"]), tree(node["right_child"])
        if node["decision_type"] == "==":
            chosen = frozenset(int(code) for code in str(test).split("||"))
            return Split(node["split_feature"], chosen, False, *ends)
        left = node["default_left"] if missing == "NaN" else test >= 0.0  # a missing value is 0
        if abs(test) <= zero:  # values of this size are 0
            test = zero if test >= 0.0 else np.nextafter(-zero, -np.inf)
        return Split(node["split_feature"], float(test), left, *ends)

    trees = [tree(one["tree_structure"]) for one in dump["tree_info"]]
    return Forest(trees, np.float64, partial(_codes, booster.pandas_categorical or ()))


def _xgboost(model: Any) -> Forest:
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    booster = learner["gradient_booster"]
    weights = booster.get("weight_drop")  # of DART
    booster = booster.get("gbtree", booster)
    _refuse(booster["name"] == "gblinear", "its booster is linear (gblinear)")
    _refuse(not np.isnan(model.missing), f"it takes {model.missing} for a missing value (missing)")
    parts = booster["model"]
    several = {*parts["tree_info"]} - {0} or int(learner["learner_model_param"]["num_target"]) > 1
    _refuse(several, "it has several outputs")
    best = learner["attributes"].get("best_iteration")
    count = None if best is None else parts["iteration_indptr"][int(best) + 1]

    def tree(nodes: dict[str, Any], weight: float) -> Tree:
        first = dict(zip(nodes["categories_nodes"], nodes["categories_segments"], strict=True))
        sizes = dict(zip(nodes["categories_nodes"], nodes["categories_sizes"], strict=True))

        def at(i: int) -> Tree:
            low, high = nodes["left_children"][i], nodes["right_children"][i]
            test = np.float32(nodes["split_conditions"][i])
            if low < 0:
                return weight * float(test)
            column, missing_low = nodes["split_indices"][i], bool(nodes["default_left"][i])
            if i in first:  # a category of the set goes to the right
                chosen = nodes["categories"][first[i] : first[i] + sizes[i]]
                return Split(column, frozenset(chosen), not missing_low, at(high), at(low))
            below = float(np.nextafter(test, np.float32(-np.inf)))  # x < test
            return Split(column, below, missing_low, at(low), at(high))

        return at(0)

    each = parts["trees"][:count]
    weights = weights or [1.0] * len(parts["trees"])
    trees = [tree(nodes, weight) for nodes, weight in zip(each, weights, strict=False)]
    levels = list[Sequence[Any]]()
    for one in parts.get("cats", {}).get("enc", []):
        ends, values = one.get("offsets"), one["values"]
        data = np.array(values if ends else [], np.int64).astype(np.uint8).tobytes()
        text = [data[i:j].decode(errors="replace") for i, j in pairwise(ends or ())]
        cut = any("\ufffd" in level for level in text)  # 3.2.0 counts no bytes beyond ASCII
        levels += [() if cut else text or values] if values else []
    return Forest(trees, np.float32, partial(_codes, levels))


def _hist_gradient_boosting(model: Any) -> Forest:
    _refuse(model.n_trees_per_iteration_ != 1, "it has several outputs")
    categorical = model.is_categorical_
    if categorical is None:
        categorical = np.zeros(model.n_features_in_, dtype=bool)
    # The categorical columns come first in what the trees get.
    order = np.argsort(~categorical, kind="stable")

    def tree(predictor: Any) -> Tree:
        def at(i: int) -> Tree:
            node = predictor.nodes[i]
            if node["is_leaf"]:
                return float(node["value"])
            test: float | frozenset[int] = float(node["num_threshold"])
            if node["is_categorical"]:
                words = predictor.raw_left_cat_bitsets[node["bitset_idx"]]
                test = frozenset(k for k in range(256) if int(words[k // 32]) >> k % 32 & 1)
            ends = at(int(node["left"])), at(int(node["right"]))
            column = int(order[node["feature_idx"]])
            return Split(column, test, bool(node["missing_go_to_left"]), *ends)

        return at(0)

    def codes(X: Any) -> dict[int, npt.NDArray[np.int64]]:
        numbers = np.nan_to_num(model._preprocess_X(X, reset=False), nan=-1.0, posinf=0, neginf=0)
        return {int(order[j]): numbers[:, j].astype(np.int64) for j in range(categorical.sum())}

    return Forest([tree(one) for (one,) in model._predictors], np.float64, codes)


def _catboost(model: Any, columns: int) -> Forest:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        dump = json.loads(path.read_text())
    _refuse(len(dump["scale_and_bias"][1]) > 1, "it has several outputs")
    features = dump["features_info"]
    numbers = {one["feature_index"]: one for one in features.get("float_features", [])}

    def split(test: dict[str, Any], left: Tree, right: Tree) -> Split:
        kind = test["split_type"]
        if kind == "FloatFeature":
            feature = numbers[test["float_feature_index"]]
            missing_left = feature["nan_value_treatment"] != "AsTrue"
            return Split(feature["flat_feature_index"], test["border"], missing_left, left, right)
        _refuse(kind not in ("OneHotFeature", "OnlineCtr"), f"it splits features of kind {kind}")
        # A question about categories is a column of its own, whose only category is "yes".
        return Split(columns + test["split_index"], frozenset({0}), False, right, left)

    def oblivious(tree: dict[str, Any], bit: int, leaf: int = 0) -> Tree:
        if bit < 0:
            return float(tree["leaf_values"][leaf])
        ends = (oblivious(tree, bit - 1, leaf | side << bit) for side in (0, 1))
        return split(tree["splits"][bit], *ends)

    def nested(node: dict[str, Any]) -> Tree:
        if "split" not in node:
            return float(node["value"])
        return split(node["split"], nested(node["left"]), nested(node["right"]))

    trees = [
        oblivious(tree, len(tree["splits"] or ()) - 1) for tree in dump.get("oblivious_trees", [])
    ]
    trees += [nested(tree) for tree in dump.get("trees", [])]
    derived: dict[int, frozenset[float]] = defaultdict(frozenset)
    for part in (part for ctr in features.get("ctrs", []) for part in ctr["elements"]):
        if "float_feature_index" in part:  # a feature of categories and of one side of a border
            derived[numbers[part["float_feature_index"]]["flat_feature_index"]] |= {part["border"]}
    codes = None if features.get("categorical_features") else partial(_codes, ())
    return Forest(trees, np.float32, codes, derived)


def _ydf(model: Any, names: Sequence[str]) -> Forest:
    _refuse(model.num_trees_per_iteration() != 1, "it has several outputs")
    columns = [one.name for one in model.data_spec().columns]
    categories = False

    def tree(node: Any) -> Tree:
        nonlocal categories
        condition = getattr(node, "condition", None)
        if condition is None:
            return float(node.value.value)
        kind, column = type(condition).__name__, names.index(columns[condition.attribute])
        yes, no = tree(node.pos_child), tree(node.neg_child)
        if kind == "NumericalHigherThanCondition":  # x >= threshold
            below = np.nextafter(np.float32(condition.threshold), np.float32(-np.inf))
            return Split(column, float(below), not condition.missing, no, yes)
        _refuse(kind != "CategoricalIsInCondition", f"it has splits of kind {kind}")
        categories = True
        return Split(column, frozenset(condition.mask), condition.missing, yes, no)

    trees = [tree(one.root) for one in model.get_all_trees()]
    return Forest(trees, np.float32, None if categories else partial(_codes, ()))
