"""The untouched check: its data sets, and methods without a density."""

import hashlib

import pytest
import torch

from reproduce.data.untouched_data import UNTOUCHED
from reproduce.defaults import untouched
from reproduce.methods import ADDITIVE, Rows, levels, train
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
        ("caravan", (5822, 82, 3), "61c643dbc324bdcc"),
        ("nhefs", (1517, 44, 4), "7061bf2a59797e23"),
        ("bdf", (2287, 139, 3), "2ad5c68cc70501e4"),
        ("scots", (3435, 168, 2), "3764788957e9ee80"),
        ("blood_storage", (288, 11, 3), "a975ff166c33d0fc"),
        ("greene", (384, 14, 2), "80fc1c39ab6b80cd"),
        ("azcabgptca", (1959, 1, 3), "e9f0cea4392b0743"),
        ("flchain", (7874, 2, 3), "bc54b8c63a736be1"),
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


def test_members_read_a_category_of_many_levels_as_estimators_do():
    x, r, y = torch.eye(40).repeat(6, 1), torch.rand(240, 1), torch.rand(240)
    names = tuple(f"school={level}" for level in range(40))
    assert levels.many_levels(names, 240)
    assert not levels.many_levels(names[:30], 240)
    assert list(levels.table_of(names, x, r)["school"]) == [*names] * 6
    model, _ = train("Members", Rows(x, r, y, "continuous", names), None, seed=0)
    (encoding,) = (code for code in model.estimator.encoding_.columns if code.kind == "category")
    assert len(encoding.effects) == 40
    cdf = model.predictive(x, r).cdf(y)
    assert model.predict(x, r).shape == model.log_prob(x, r, y).shape == cdf.shape == (240,)


def test_rivals_that_add_up_columns_find_a_sum():
    pytest.importorskip("pygam")
    torch.manual_seed(0)
    x, r = torch.randn(400, 2), torch.randn(400, 1)
    total = x[:, 0] + 2.0 * r[:, 0]
    for method in ADDITIVE:
        mean, _ = train(method, Rows(x, r, total, "continuous"), None, seed=0)
        assert (mean.predict(x, r) - total).abs().mean() < 0.05, method
        binary, _ = train(
            method, Rows(x, r, (total + torch.randn(400) > 0).float(), "binary"), None, seed=0
        )
        p = binary.predict(x, r)
        assert ((p > 0.5) == (total > 0)).float().mean() > 0.9, method
