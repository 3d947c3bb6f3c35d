"""An audit of a predictor that a program names, and its result as JSON holds it."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyro_gcm._utils.archive import undamaged
from pyro_gcm._utils.lists import parts_of
from pyro_gcm.audit.adapters import adapter_of
from pyro_gcm.audit.audit import audit_monotonicity
from pyro_gcm.audit.result import MonotonicityAudit

if TYPE_CHECKING:
    import pandas as pd


def audit_named(
    source: str,
    frame: pd.DataFrame,
    *,
    r: str,
    x: str | None,
    adapter: str,
    data: object,
    **options: Any,
) -> MonotonicityAudit:
    """Audit a predictor on the rows of a table.

    :param source: module:attribute, or a joblib file.
    :param r: names of the columns in which predictions should increase, with commas, or decrease
        with a leading - that is not part of the name; `x`: those of the other inputs.
    :param data: what messages call the table.
    :param options: of `audit_monotonicity`.
    :raises ValueError: for columns that the table or the predictor does not have.
    """
    from pandas.api.types import is_numeric_dtype

    names = parts_of(r, [*frame.columns, *(f"-{name}" for name in frame.columns)])
    if not names:
        raise ValueError(f"--r must name at least one column, got {r!r}")
    r_names = [name if name in frame else name.removeprefix("-") for name in names]
    increasing = [1 if r_name == name else -1 for r_name, name in zip(r_names, names, strict=True)]
    predictor = _load(source)
    adapter = adapter_of(predictor) if adapter == "auto" else adapter
    features = [str(name) for name in getattr(predictor, "feature_names_in_", frame.columns)]
    x_names = [n for n in features if n not in r_names]
    x_names = x_names if x is None else parts_of(x, [*frame.columns])
    used = (*r_names, *x_names)
    if missing := [name for name in used if name not in frame]:
        raise ValueError(f"{data} has no columns {missing}, it has {list(frame.columns)}")
    if repeated := sorted({name for name in used if used.count(name) > 1}):
        raise ValueError(f"--r and --x must name different columns, got {repeated} twice")
    if unknown := [name for name in used if name not in features]:
        raise ValueError(f"the predictor has no columns {unknown}, it takes {features}")
    if text := [name for name in used if not is_numeric_dtype(frame[name])]:
        hint = "" if set(text) & set(r_names) else ": select numeric ones with --x"
        raise ValueError(f"columns {text} are not numeric{hint}")
    columns = None
    if adapter.endswith("(matrix)"):  # in the order of the features, or of the file
        order = [name for name in features if name in {*r_names, *x_names}]
        x_names = [name for name in order if name not in r_names]
        columns = [order.index(name) for name in r_names]
    return audit_monotonicity(
        predictor,
        frame[x_names],
        frame[r_names],
        increasing=increasing,
        adapter=adapter,
        columns=columns,
        **options,
    )


def _load(source: str) -> Any:
    """Read a predictor from a file, or from a module, where a factory function is called."""
    if Path(source).is_file():
        import joblib

        with undamaged(f"{source} cannot be read as a joblib or pickle file:"):
            return joblib.load(source)
    module, colon, attribute = source.partition(":")
    if not colon or not module or not attribute:
        raise ValueError(f"predictor must be module:attribute or an existing file, got {source}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules beside the data, as with `python -m`
    found: Any = importlib.import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    factory = inspect.isclass(found) or inspect.isfunction(found)
    return found() if factory and not inspect.signature(found).parameters else found


def record_of(audit: MonotonicityAudit) -> dict[str, Any]:
    """The result in a form that JSON supports."""
    w = audit.witness
    numbers = ("passed", "pairs", "ties", "rounding", "violations", "rate", "largest_drop")
    of_pair = ("row", "search", "low", "high", "drop", "confirmed")
    return {
        **{name: getattr(audit, name) for name in (*numbers, "tolerance")},
        "by_search": audit.frame.to_dict("records"),
        "by_column": audit.by_column.to_dict("records"),
        "witness": w
        and {
            **{name: getattr(w, name) for name in of_pair},
            "x": dict(zip(audit.x_names, w.x.tolist(), strict=True)),
            "r_low": dict(zip(audit.r_names, w.r_low.tolist(), strict=True)),
            "r_high": dict(zip(audit.r_names, w.r_high.tolist(), strict=True)),
        },
    }
