"""The rows, columns and scales that the code behind the paper's Table 3 reads."""

import gzip
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from toys import REAL, toy

from reproduce.released import rows as released_rows
from reproduce.released.rows import rows_of


@REAL
def test_the_rows_are_the_released_ones():
    folder = Path(os.environ["PYRO_GCM_DATA"]) / "released"
    if not folder.exists():
        pytest.skip("the released files are not there")
    with gzip.open(folder / "test_adult.csv.gz") as file:
        wanted = pd.read_csv(file).to_numpy()
    _, test = rows_of("adult", "published", "released")
    assert np.abs(test.r.numpy() - wanted[:, :4]).max() < 1e-6
    assert (test.y.numpy() == wanted[:, -1]).all()
    # The categories are in another order.
    assert sorted(map(tuple, test.x.numpy().T)) == sorted(map(tuple, wanted[:, 4:-1].T))
    for name, file in (("compas", "compas"), ("auto_mpg", "auto")):
        for part, kind in zip(
            rows_of(name, "published", "released"), ("train", "test"), strict=True
        ):
            frame = pd.read_csv(folder / f"{kind}_{file}.csv")
            y = frame.pop("ground_truth") / (10.0 if name == "auto_mpg" else 1.0)
            columns = torch.cat([part.x, part.r], 1).abs().sum(0).sort()[0]
            assert sorted(part.y.tolist()) == pytest.approx(sorted(y))
            assert columns.numpy() == pytest.approx(
                np.sort(np.abs(frame.to_numpy()).sum(0)), rel=1e-4
            )


@REAL
def test_blog_has_the_columns_that_the_pages_of_its_file_print():
    # github.com/airtai/mono-dense-keras, nbs/experiments/Blog.ipynb, the first and third row.
    front = [[0.00192, 0.001825, 0.00292, 0.001627], [0.00064, 0.001825, 0.0, 0.000651]]
    constrained = [
        [0.108675, 0.19557, 0.6, 0.391304, 0.516725, 0.55, 0.486111, 0.0],
        [0.108675, 0.19557, 0.6, 0.391304, 0.518486, 0.55, 0.138889, 0.0],
    ]
    learn, test = rows_of("blog", "published", "released")
    assert (len(learn), len(test)) == (47_302, 6_968)
    for at, (x, r) in enumerate(zip(front, constrained, strict=True)):
        logged = [math.log(1.0 + 20.0 * value) for value in x]
        assert learn.x[2 * at, :4].tolist() == pytest.approx(logged, abs=2e-5)
        assert learn.r[2 * at].tolist() == pytest.approx(r, abs=1e-6)
    assert learn.y[:3].tolist() == [0.0, 0.0, 0.125]
    assert learn.x.shape[1] + learn.r.shape[1] == 276


@pytest.mark.parametrize("low", [0.0, -0.5])
def test_a_falling_revenue_between_0_and_1_is_below_0(low, monkeypatch):
    table = toy("toy", "published", "binary", 2, 2, 100)
    r = torch.linspace(low, 1.0, 200).reshape(100, 2)
    monkeypatch.setattr(
        released_rows, "load", lambda *_: replace(table, r=r, r_names=("-falling", "rising"))
    )
    parts = rows_of("diabetes", "published", "released")
    falling, rising = torch.cat([part.r for part in parts]).sort(0)[0].T
    assert torch.equal(falling, r[:, 0] - float(low == 0.0))  # centred columns have signs already
    assert torch.equal(rising, r[:, 1])
