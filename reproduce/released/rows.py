"""Training and test rows as the released code reads them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from pyro_gcm import data
from reproduce.methods import Rows
from reproduce.tasks import load

#: Data sets whose training and test rows are known to be the paper's.
KNOWN_ROWS = ("adult", "compas", "blog", "auto_mpg")
#: What the released code constrains on Blog Feedback. Its file has the eight counts in its first
#: columns, and the code takes "feature_50" to "feature_58" as if it had not. The file is that of
#: github.com/airtai/mono-dense-keras, whose notebook nbs/experiments/Blog.ipynb prints five rows.
BLOG_CONSTRAINED = tuple(f"attribute {i}" for i in (46, 47, 48, 49, 55, 60, 61, 62))


@lru_cache(maxsize=2)
def rows_of(name: str, label: str, scaling: str) -> tuple[Rows, Rows]:
    """Training and test rows as a network reads them, float32, y in units of `unit_of_y`.

    Those of `KNOWN_ROWS` are the released ones; Adult's test rows are the last fifth of the
    permutation of numpy's `RandomState(0)`, and so are those of the other sets without a split in
    the literature, which is a guess.

    :param label: "published", or "right" for Adult's right label.
    :param scaling: "released", or "standard" for standardised x and r.
    """
    dataset = load(name, "published")
    if dataset.fixed is not None:
        learn, test = dataset.fixed_split()
    else:
        order = torch.from_numpy(np.random.RandomState(0).permutation(len(dataset.y)))
        learn, test = order[: int(0.8 * len(order))], order[int(0.8 * len(order)) :]
    x, r = _of_blog(dataset) if name == "blog" else (dataset.x, _signed(dataset))
    y = dataset.y / unit_of_y(name)
    if label == "right" and name == "adult":
        y = load(name, "default").y
    if scaling == "standard":
        x, r = (_standardised(part, learn) for part in (x, r))
    rows = Rows(x.float(), r.float(), y.float(), dataset.response)
    return rows.rows(learn), rows.rows(test)


def unit_of_y(name: str) -> float:
    """By what y is divided before a network reads it."""
    return 10.0 if name == "auto_mpg" else 1.0


def _of_blog(dataset: data.Dataset) -> tuple[Tensor, Tensor]:
    """Logarithms of the free columns, the eight counts in front, and the constrained columns."""
    constrained = [dataset.x_names.index(name) for name in BLOG_CONSTRAINED]
    free = [at for at in range(dataset.x_dim) if at not in constrained]
    x = torch.cat([dataset.r, dataset.x[:, free]], 1)
    return (1.0 + 20.0 * x).log(), dataset.x[:, constrained]


def _signed(dataset: data.Dataset) -> Tensor:
    """Revenues with the signs of the released code, where a falling one is below 0."""
    return dataset.r - torch.tensor([float(n.startswith("-")) for n in dataset.r_names]) * (
        dataset.r.min() >= 0.0
    )


def _standardised(columns: Tensor, learn: Tensor) -> Tensor:
    """Columns with mean 0 and standard deviation 1 in the training rows; constant ones at 0."""
    known = columns[learn]
    spread = known.std(0)
    return (columns - known.mean(0)) / torch.where(spread > 0.0, spread, 1.0)
