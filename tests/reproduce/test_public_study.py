"""The public data sets: what is trained on, what is scored, and with which settings."""

import pytest
import torch
from toys import load_as, toy

from pyro_gcm import audit_monotonicity
from reproduce import public
from reproduce.methods import METHODS, train
from reproduce.runs import Fit, as_json

SMALL = {
    "epochs": 2, "batch_size": 16, "optimizer": "adam", "learning_rate": 0.02, "hidden": 4,
    "validation": 0.1,
}  # fmt: skip


def dataset(response="binary"):
    return toy("toy", "published", response, x_dim=2, r_dim=2, rows=120)


@pytest.fixture
def given(monkeypatch):
    """Every data set is a small one; the rows that `train` was given, by their numbers."""
    given = []

    def recorded(method, rows, *arguments, **options):
        given.append((method, rows.x[:, 0].long().tolist()))
        return train(method, rows, *arguments, **options)

    loaded = {kind: dataset(kind) for kind in ("binary", "continuous")}
    kinds = {"blog": "continuous", "auto_mpg": "continuous"}
    load_as(monkeypatch, lambda name, variant: loaded[kinds.get(name, "binary")])
    monkeypatch.setattr(public, "train", recorded)
    monkeypatch.setattr(public, "AUDITED_PAIRS", 50)
    return given


def fit(protocol, method="MLP", name="compas", split="0", seed=0, **more):
    settings = {} if METHODS[method].estimator else {**SMALL, **more}
    return Fit("public", name, "published", protocol, split, seed, method, as_json(settings))


@pytest.mark.parametrize("method", ["MLP", "GCM", "IGCM", "PWL", "MM", "HistGradientBoosting"])
def test_held_out_trains_on_the_training_rows_of_its_split_only(given, method, monkeypatch):
    audited = []

    def audit(model, x, r, **options):
        audited.append(model.predict(x, r).dtype)
        return audit_monotonicity(model, x, r, **options)

    monkeypatch.setattr(public, "audit_monotonicity", audit)
    more = {"num_particles": 2} if "GCM" in method else {}
    for split in ("0", "3"):
        given.clear()
        scores = public.run(fit("held-out", method, split=split, **more))
        learn, test = dataset().split(int(split))
        assert given == [(method, learn.tolist())]
        assert not set(given[0][1]) & set(test.tolist())
        assert {"AUC", "accuracy", "log score", "calibration error", "violation rate"} <= {*scores}
    assert audited == [torch.float64] * 2
    if not METHODS[method].estimator:  # as --quick
        public.run(fit("held-out", method, rows=30, **more))
        assert given[1] == (method, dataset().split(0)[0][:30].tolist())
