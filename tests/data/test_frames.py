"""One-hot encoding keeps every category, scaling reaches 0 and 1, a wrong count is an error."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from pyro_gcm.data.frames import from_frames, min_max, one_hot, to_tensor


def test_one_hot_keeps_every_category_and_marks_one_per_column() -> None:
    frame = pd.DataFrame({"sex": ["M", "F", "M"], "race": ["b", "?", "a"]}, index=[4, 7, 9])
    encoded = one_hot(frame)
    assert list(encoded.columns) == ["sex=F", "sex=M", "race=?", "race=a", "race=b"]
    assert to_tensor(encoded).tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0], [0, 1, 0, 1, 0]]
    assert list(encoded.index) == [4, 7, 9]


def test_min_max_scales_each_column_to_zero_and_one() -> None:
    scaled = min_max(pd.DataFrame({"a": [1, 3, 2], "b": [-4.0, 0.0, 4.0]}))
    assert to_tensor(scaled).tolist() == [[0, 0], [1, 0.5], [0.5, 1]]


def test_tensor_is_a_float64_copy() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    tensor = to_tensor(frame)
    tensor.zero_()
    assert tensor.dtype == torch.float64
    assert list(frame["a"]) == [1.0, 2.0]
    assert to_tensor(frame["a"] > 1).tolist() == [0, 1]


def test_unexpected_numbers_of_columns_and_positives_are_refused() -> None:
    x = pd.DataFrame({"a": [0.0, 1.0]})
    dataset = from_frames("toy", "default", x, x.add_prefix("-"), x["a"], metric="auc", positives=1)
    assert (dataset.x_names, dataset.r_names, dataset.response) == (("a",), ("-a",), "binary")
    for expected, message in (({"x_dim": 2}, "1 columns of x"), ({"positives": 0}, "1 positives")):
        with pytest.raises(ValueError, match=f"toy has {message}, expected"):
            from_frames("toy", "default", x, x, x["a"], metric="auc", **expected)
