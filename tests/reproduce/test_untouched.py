"""The untouched check: its data sets, and methods without a density."""

import hashlib

import pytest
import torch

from reproduce.data.untouched_data import UNTOUCHED
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
    dataset = UNTOUCHED[name].read(name)
    assert (len(dataset), dataset.x_dim, dataset.r_dim) == shape
    assert dataset.r_names == tuple(UNTOUCHED[name].directions)
    assert not set(dataset.x_names) & {column.strip("-") for column in dataset.r_names}
    columns = torch.cat([dataset.x, dataset.r, dataset.y[:, None]], 1)
    assert hashlib.sha256(columns.numpy().tobytes()).hexdigest()[:16] == digest


# The study.

SIZES = []


class Constant:
    """Predicts 1 everywhere."""

    def __init__(self, rows, seed):
        SIZES.append(len(rows.y))

    def predict(self, x, r):
        return torch.ones(len(x), dtype=torch.float64)


def test_a_method_without_a_density_is_as_wide_as_its_errors():
    dataset = UNTOUCHED["randhie"].read("randhie")
    of = "randhie", "default", "held-out", "1", 0, f"{__name__}:Constant", '{"rows":300}'
    SIZES.clear()
    scores = untouched.run(Fit("untouched", *of))
    assert SIZES == [300, 240]
    learn, test = (part[:300] for part in dataset.split(1))
    spread = (dataset.y[learn[240:]] - 1.0).square().mean().sqrt()
    expected = torch.distributions.Normal(1.0, spread).log_prob(dataset.y[test]).mean()
    assert scores["log score"] == pytest.approx(float(expected))
