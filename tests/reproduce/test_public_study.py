"""The public data sets: what is trained on, what is scored, and with which settings."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import log_loss
from toys import load_as, options, toy

from pyro_gcm import audit_monotonicity, fit_members
from pyro_gcm.models.members import MemberSettings
from reproduce import methods, public, runs
from reproduce.methods import METHODS, Rows, train
from reproduce.public import candidates
from reproduce.runs import Fit, as_json
from reproduce.searching import tuning
from reproduce.searching.tuning import VALIDATION_LOSS

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


def asked(tmp_path, *more):
    return options(public.STUDY, tmp_path, "--jobs", "1", *more)


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


@pytest.mark.parametrize(
    ("name", "response", "most"), [("compas", "binary", 1000), ("blog", "continuous", 50)]
)
def test_tuning_trains_and_judges_inside_the_training_part(
    given, name, response, most, monkeypatch
):
    monkeypatch.setattr(public, "SEARCH_ROWS", most)
    scores = public.run(fit("tuning", name=name))
    assert {*scores} == {VALIDATION_LOSS, "seconds", "epochs"}
    table = dataset(response)
    learn = table.split(0)[0][:most]
    size = len(learn) * 4 // 5
    seen, unseen = learn[:size], learn[size:]
    assert given == [("MLP", seen.tolist())]
    rows = Rows(table.x[seen], table.r[seen], table.y[seen], response)
    model, _ = train("MLP", rows, dict(SMALL), 0)
    prediction, y = model.predict(table.x[unseen], table.r[unseen]).double(), table.y[unseen]
    if response == "binary":
        expected = -(y * prediction.log() + (1 - y) * (1 - prediction).log()).mean()
        assert float(expected) == pytest.approx(log_loss(y.numpy(), prediction.numpy()))
    else:
        expected = (prediction - y).square().mean()
    assert scores[VALIDATION_LOSS] == pytest.approx(float(expected), rel=1e-5)


def test_other_errors_are_not_taken_for_divergence(given, monkeypatch):
    def fails(*arguments, **options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(public, "train", fails)
    with pytest.raises(RuntimeError, match="out of memory"):
        public.run(fit("held-out"))


def fits_of(arguments):
    """All fits that a command asks for."""
    asked_for = public.STUDY.chosen(arguments).fits(arguments)
    return [each for fits in asked_for.values() for each in fits]


def test_held_out_fits_are_at_the_best_of_the_six_trials(tmp_path, monkeypatch):
    settings = candidates("compas", "MM", quick=False)
    assert len(settings) == len(set(settings)) >= 5
    ran = []

    def trial(path, fits, run, arguments, together):
        ran.extend(fits)
        losses = {"metric": VALIDATION_LOSS}
        rows = [{**vars(f), **losses, "value": abs(n - 3)} for n, f in enumerate(fits)]
        return pd.DataFrame(rows)

    monkeypatch.setattr(tuning, "run_fits", trial)
    monkeypatch.setattr(tuning, "RESULTS", tmp_path)
    few = ["--datasets", "compas", "--methods", "MM", "--seeds", "4"]
    fits = fits_of(asked(tmp_path, *few, "--tune"))
    assert [f.settings for f in ran] == settings
    assert {(f.protocol, f.split, f.seed) for f in ran} == {("tuning", "0", 0)}
    assert {f.settings for f in fits} == {settings[3]}
    assert [(f.split, f.seed) for f in fits] == [("0", 0), ("1", 1), ("2", 2), ("3", 3)]
    fresh = fits_of(asked(tmp_path, *few, "--tune", "--protocol", "confirmation"))
    assert {(f.protocol, f.settings) for f in fresh} == {("confirmation", settings[3])}
    assert [(f.split, f.seed) for f in fresh] == [(str(n), n) for n in (10, 11, 12, 13)]
    with pytest.raises(ValueError, match="run with --tune"):
        fits_of(asked(tmp_path, *few))


def test_members_of_the_tables_are_those_of_the_library(given, tmp_path, monkeypatch):
    asked_for = []

    def fast(*columns, **options):
        asked_for.append(options)
        return fit_members(*columns, **options, settings=MemberSettings(members=2, epochs=1))

    monkeypatch.setattr(methods, "fit_members", fast)
    some = ["--datasets", "compas", "auto_mpg", "--quick"]
    public.STUDY.main(asked(tmp_path, "--protocol", "members", *some))
    shared = {"device": "cpu", "progress": False}  # and nothing that is not the default
    assert {each["response"] for each in asked_for} == {"binary", "continuous"}
    assert all(each == {**shared, **each} and len(each) == 4 for each in asked_for)
    table = runs.read_results(tmp_path / "public_members.csv")
    assert set(table["dataset"]) == {"compas", "auto_mpg"}
    assert set(table["method"]) == {"Members, default"}
    assert np.isfinite(table["value"]).all()
