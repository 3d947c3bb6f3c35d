"""Fitted boosters in the formats of their libraries, without pickle and to the last bit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class _Format(NamedTuple):
    extension: str
    dump: Callable[[Any], bytes]
    parse: Callable[[bytes], Any]


def _dump_lightgbm(estimator: Any) -> bytes:
    booster = getattr(estimator, "booster_", estimator)
    text: str = booster.model_to_string(num_iteration=-1)
    return text.encode()


def _parse_lightgbm(raw: bytes) -> Any:
    return import_module("lightgbm").Booster(model_str=raw.decode())


def _dump_xgboost(estimator: Any) -> bytes:
    return bytes(estimator.get_booster().save_raw("json"))


def _parse_xgboost(raw: bytes) -> Any:
    model = import_module("xgboost").XGBModel()
    model.load_model(bytearray(raw))
    return model


def _dump_catboost(estimator: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        estimator.save_model(str(path), format="cbm")  # its JSON has values of 15 digits
        return path.read_bytes()


def _parse_catboost(raw: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        path.write_bytes(raw)
        return import_module("catboost").CatBoost().load_model(str(path), format="cbm")


_FORMATS = {
    "lightgbm": _Format("txt", _dump_lightgbm, _parse_lightgbm),
    "xgboost": _Format("json", _dump_xgboost, _parse_xgboost),
    "catboost": _Format("cbm", _dump_catboost, _parse_catboost),
}


def booster_file(library: str, number: int) -> str:
    """Name of the file of a booster.

    :raises TypeError: for a library that has no format but pickle.
    """
    if library not in _FORMATS:
        raise TypeError(
            f"library={library!r} cannot be saved: HistGradientBoosting has no format but pickle; "
            f"use one of {sorted(_FORMATS)}"
        )
    return f"booster{number}.{_FORMATS[library].extension}"


def dumped(library: str, estimator: Any) -> bytes:
    """The trees of a fitted estimator, or of what `parsed` gave."""
    return _FORMATS[library].dump(estimator)


def parsed(library: str, raw: bytes) -> Any:
    """What predicts as the estimator that was dumped."""
    return _FORMATS[library].parse(raw)
