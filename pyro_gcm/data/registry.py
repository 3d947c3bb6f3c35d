"""Which data sets there are, and the one function that loads them."""

from __future__ import annotations

from collections.abc import Callable

from pyro_gcm.data import adult, auto_mpg, compas
from pyro_gcm.data.dataset import Dataset

_RECIPES: dict[str, dict[str, Callable[[], Dataset]]] = {
    "adult": {"default": adult.default, "published": adult.published},
    "auto_mpg": {"default": auto_mpg.default, "published": auto_mpg.published},
    "compas": {"default": compas.default, "published": compas.published},
}


def load(name: str, variant: str = "default") -> Dataset:
    """Load a benchmark data set.

    ==========  ======  =====  =====  ==========  ========
    name        rows    x_dim  r_dim  response    metric
    ==========  ======  =====  =====  ==========  ========
    adult       48,842  32     4      binary      auc
    auto_mpg    392     4      3      continuous  rmse
    compas      6,172   9      4      binary      accuracy
    ==========  ======  =====  =====  ==========  ========

    The variant "default" has the right labels and columns in their raw units (years, dollars,
    counts, 0/1 for one level of a category): the models standardise inside themselves, and no
    statistic of the test rows leaks into the inputs. The variant "published" follows the recipe
    that published tables were computed on, scaling and slips included: use it only to compare
    with them. What each variant holds is said in ``pyro_gcm.data.<name>``. Adult has one more
    column of x when published (33).

    Raw files come from the folder named by the environment variable PYRO_GCM_DATA where it is
    set, laid out as ``<name>/<file>`` or ``<name>/<file>.gz`` (adult/adult.data,
    adult/adult.test, auto_mpg/auto-mpg.data, compas/compas-scores-two-years.csv). Otherwise
    they are downloaded once from their public source and cached. Their sha256 is checked every
    time.

    Example::

        from pyro_gcm import data

        adult = data.load("adult")
        train, test = adult.split(seed=0)
        x, r, y = adult.x[train], adult.r[train], adult.y[train]

    Args:
        name: "adult", "auto_mpg" or "compas".
        variant: "default" or "published".

    Returns:
        A :class:`Dataset` with every row, training and test.

    Raises:
        ValueError: An unknown name or variant, or a raw file that is not the known one.
        FileNotFoundError: PYRO_GCM_DATA is set and its folder lacks the file.
        OSError: The download failed.
    """
    if name not in _RECIPES:
        raise ValueError(f"name is {name!r}, expected one of: {', '.join(_RECIPES)}")
    variants = _RECIPES[name]
    if variant not in variants:
        raise ValueError(
            f"variant is {variant!r}, expected one of: {', '.join(variants)} (for {name})"
        )
    return variants[variant]()
