"""The untouched check, which tests see with shuffled outcomes only."""

import argparse
import hashlib

import pytest
import torch
from toys import toy

from reproduce.data import untouched_data
from reproduce.data.untouched_data import UNTOUCHED, load
from reproduce.defaults import untouched
from reproduce.runs import Fit

# The data sets.


@pytest.mark.parametrize(
    ("name", "shape", "digest"),
    [
        ("fair", (6366, 15, 3), "c53858559330de94"),
        ("randhie", (20190, 3, 4), "757b02466f73fe28"),
        ("default", (10000, 1, 2), "1ffa7c061b0d187d"),
        ("credit_card", (1319, 6, 3), "438c0799e57aff1a"),
        ("pima", (532, 3, 4), "a0fc44ceb6c97838"),
        ("doctor_visits", (5190, 6, 4), "ba360e6c8f6f4141"),
        ("house_prices", (546, 6, 5), "64f074fefa38ebe0"),
        ("carseats", (400, 6, 4), "89ac528934b08467"),
    ],
)
def test_the_columns_are_those_of_the_package(name, shape, digest):
    pytest.importorskip(UNTOUCHED[name].package, reason="this package brings the data set")
    dataset = load(name)
    assert (len(dataset), dataset.x_dim, dataset.r_dim) == shape
    assert dataset.r_names == tuple(UNTOUCHED[name].directions)
    assert not set(dataset.x_names) & {column.strip("-") for column in dataset.r_names}
    columns = torch.cat([dataset.x, dataset.r, dataset.y[:, None]], 1)
    assert hashlib.sha256(columns.numpy().tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize("name", list(UNTOUCHED))
def test_shuffled_outcomes_are_those_of_other_rows(name, monkeypatch):
    rows_of = toy(rows=500)  # the first column of x is the row number, y a function of the row
    rows_of.y[:] = torch.arange(500)
    entry = argparse.Namespace(read=lambda name: rows_of)
    monkeypatch.setitem(untouched_data.UNTOUCHED, name, entry)
    few = load.__wrapped__(name, 200)
    rows = few.x[:, 0].long()
    assert len(rows.unique()) == len(few.y.unique()) == 200
    assert torch.equal(few.r, rows_of.r[rows])
    assert (few.y == rows).sum() < 5
    assert abs(torch.corrcoef(torch.stack([few.y, rows.double()]))[0, 1]) < 0.2


# The study. Outcomes are shuffled in all of its tests, so that nobody sees a score of the check.


class Constant:
    """Predicts 1 everywhere."""

    def predict(self, x, r):
        return torch.ones(len(x), dtype=torch.float64)


def test_a_method_without_a_density_is_as_wide_as_its_errors():
    sizes = []

    def own(rows):
        sizes.append(len(rows.y))
        return Constant()

    dataset = load("randhie", 300)
    of = "randhie", "default", "held-out", "1", 0, "constant", '{"shuffled":300}'
    scores = untouched.held_out(dataset, Fit("untouched", *of), "cpu", own)
    assert sizes == [240, 192]
    learn, test = dataset.split(1)
    spread = (dataset.y[learn[192:]] - 1.0).square().mean().sqrt()
    expected = torch.distributions.Normal(1.0, spread).log_prob(dataset.y[test]).mean()
    assert scores["log score"] == pytest.approx(float(expected))
