"""Splits of a ``Dataset``; frames become its columns."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch

from pyro_gcm.data import Dataset
from pyro_gcm.data.dataset import from_frames, min_max, one_hot


def make(rows: int = 11, **changes: Any) -> Dataset:
    """A small table in which x is the row index."""
    parts: dict[str, Any] = {
        "name": "toy",
        "variant": "default",
        "x": torch.arange(rows, dtype=torch.float64)[:, None],
        "r": torch.zeros(rows, 2, dtype=torch.float64),
        "y": torch.arange(rows, dtype=torch.float64) % 2,
        "x_names": ("row",),
        "r_names": ("a", "-b"),
        "response": "binary",
        "metric": "auc",
    }
    return Dataset(**{**parts, **changes})


def test_split_is_a_seeded_permutation_cut_four_to_one() -> None:
    for rows, size in ((11, 8), (392, 313), (48_842, 39_073)):
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(3))
        before = torch.get_rng_state()
        train, test = make(rows).split(seed=3)
        assert torch.get_rng_state().equal(before)
        assert (len(train), len(test)) == (size, rows - size)
        assert torch.cat([train, test]).equal(order)


def test_the_fixed_split_is_a_copy() -> None:
    with pytest.raises(ValueError, match=r"toy \(3 rows, variant 'default'\) has no fixed split"):
        make(3).fixed_split()
    dataset = make(fixed=(torch.arange(8), torch.arange(8, 11)))
    dataset.fixed_split()[0].zero_()
    assert dataset.fixed_split()[0].equal(torch.arange(8))


def test_frame_has_every_column_under_its_name() -> None:
    dataset = make()
    assert (len(dataset), dataset.x_dim, dataset.r_dim) == (11, 1, 2)
    frame = dataset.frame()
    assert list(frame.columns) == [*dataset.x_names, *dataset.r_names, "y"]
    for names, values in ((dataset.x_names, dataset.x), (dataset.r_names, dataset.r)):
        assert torch.equal(torch.tensor(frame[list(names)].to_numpy()), values)
    assert torch.equal(torch.tensor(frame["y"].to_numpy()), dataset.y)


def test_frames_become_columns_that_keep_their_names() -> None:
    frame = pd.DataFrame({"sex": ["M", "F", "M"], "race": ["b", "?", "a"]}, index=[4, 7, 9])
    encoded, scaled = one_hot(frame), min_max(pd.DataFrame({"a": [1, 3, 2]}, index=[4, 7, 9]))
    dataset = from_frames("toy", "default", encoded, scaled, frame["sex"] == "F", metric="auc")
    assert dataset.x_names == ("sex=F", "sex=M", "race=?", "race=a", "race=b")
    assert dataset.x.tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0], [0, 1, 0, 1, 0]]
    assert (dataset.r.tolist(), dataset.y.tolist()) == ([[0], [1], [0.5]], [0, 1, 0])
    assert (dataset.r_names, dataset.response, dataset.r.dtype) == (("a",), "binary", torch.float64)
