"""`GCMCompetingRisks`, and the command line for it: causes, directions, incidences, refusals."""

import functools

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import run

from pyro_gcm import SurvivalTimes, load, save
from pyro_gcm.estimators import GCMCompetingRisks, GCMSurvival
from pyro_gcm.estimators.event_times import first_causes
from pyro_gcm.estimators.kinds import predictions

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(160, 2)), columns=["debt", "rate"])
X["job"] = RNG.choice([*"ab"], 160)
_ENDS = np.stack(
    [
        RNG.uniform(1.0, 8.0, 160),
        np.exp(1.0 - 0.9 * X["debt"] + 0.5 * RNG.normal(size=160)),
        np.exp(0.9 - 0.6 * X["rate"] + 0.5 * RNG.normal(size=160)),
    ],
    1,
)
TIME = _ENDS.min(1)
CAUSE = np.array([None, "default", "repaid"], dtype=object)[_ENDS.argmin(1)]
DIRECTIONS = {"default": {"debt": 1}, "repaid": {"rate": 1}}


@functools.cache
def fitted(**more):
    options = {"monotonic_cst": DIRECTIONS, "epochs": 2, "members": 2, "hidden": 8, **more}
    return GCMCompetingRisks(**options).fit(X, (CAUSE, TIME))


def test_incidences_rise_in_the_columns_of_their_cause_and_fall_in_others(tmp_path):
    model, at = fitted(), [0.5, 2.0, np.inf]
    assert model.causes_ == ["default", "repaid"]
    assert model.directions_ == [1, -1, 0]  # of the incidence of default
    low = model.predict_cumulative_incidence(X, at)
    for column, raised in (("debt", 0), ("rate", 1)):
        for step in (1e-7, 1.0):
            high = model.predict_cumulative_incidence(X.assign(**{column: X[column] + step}), at)
            moved = (high - low) * [1.0 if k == raised else -1.0 for k in range(2)]
            assert (moved >= 0.0).all()
    curve = model.predict_survival_function(X, True, times=at[:2])
    np.testing.assert_allclose(low[:, :2].sum(-1) + curve, 1.0, atol=1e-12)
    np.testing.assert_allclose(low[:, 2], model.predict_causes(X), atol=1e-12)
    assert (model.predict_hazard(X[:3], [0.5, 2.0]) > 0.0).all()
    by_horizon = model.predict_cumulative_incidence(X, [model.horizon_])[:, 0, 0]
    np.testing.assert_allclose(model.predict(X), by_horizon, atol=1e-12)
    assert 0.5 < model.score(X, (CAUSE, TIME)) <= 1.0
    found = predictions(model, X[:3], times=[2.0])
    assert [*found][-3:] == ["survival_2", "incidence_default_2", "incidence_repaid_2"]
    needed = model.required(X[:5], "debt", 0.2)["required"]
    there = np.isfinite(needed)
    assert (model.predict(X[:5].assign(debt=needed)[there]) >= 0.2).all()
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def test_the_same_rows_in_every_form_make_the_same_model():
    wanted = fitted().predict(X)
    codes = np.array([0 if each is None else 1 + (each == "repaid") for each in CAUSE])
    labels = {"default": 1, "repaid": 2}
    numbers = {labels[cause]: own for cause, own in DIRECTIONS.items()}
    structured = np.array([*zip(CAUSE, TIME, strict=True)], [("cause", object), ("time", float)])
    for y in (
        pd.DataFrame({"time": TIME, "event": CAUSE}),
        structured,
        SurvivalTimes.competing(TIME, CAUSE),
    ):
        for cause, own in first_causes(y).items():
            assert torch.equal(own.columns(), first_causes((CAUSE, TIME))[cause].columns())
    options = {"monotonic_cst": numbers, "epochs": 2, "members": 2, "hidden": 8}
    found = GCMCompetingRisks(**options).fit(X, np.stack([codes, TIME], 1)).predict(X)
    np.testing.assert_array_equal(found, wanted)


def test_another_cause_and_what_is_refused():
    other = fitted(cause="repaid")
    assert other.causes_ == ["repaid", "default"]
    both = {"default": {"debt": 1, "rate": 1}, "repaid": {"rate": 1}}
    unordered = GCMCompetingRisks(monotonic_cst=both, epochs=1, members=2, hidden=8)
    unordered.fit(X, (CAUSE, TIME))
    assert unordered.directions_ == [1, 0, 0]
    with pytest.raises(ValueError, match="one in which the prediction rises"):
        unordered.required(X[:2], "rate", 0.3)
    for options, y, message in (
        ({"cause": "death"}, (CAUSE, TIME), r"cause must be one of \['default', 'repaid'\]"),
        ({"monotonic_cst": {"debt": 1}}, (CAUSE, TIME), "mapping from causes to directions"),
        ({"monotonic_cst": [1, 0, 0]}, (CAUSE, TIME), "mapping from causes to directions"),
        ({}, (np.where(CAUSE == "repaid", None, CAUSE), TIME), "GCMSurvival is for one"),
        ({}, (CAUSE, TIME, TIME), "has a third part"),
        ({}, (CAUSE, -TIME), "time must be at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            GCMCompetingRisks(**options).fit(X, y)
    with pytest.raises(ValueError, match="several causes are for GCMCompetingRisks"):
        GCMSurvival().fit(X, (np.arange(160) % 3, TIME))


def test_the_command_line_fits_and_predicts_causes(tmp_path):
    data, folder = tmp_path / "loans.csv", tmp_path / "model"
    X.assign(years=TIME, ended=CAUSE).to_csv(data, index=False)
    fit = ["fit", data, "--target", "years", "--event", "ended", "--out", folder, "--members", 2]
    fit += ["--increasing", "default:debt,repaid:rate", "--epochs", 1, "--positive", "repaid"]
    made = run(*fit, "--quiet", "--json").json
    assert (made["kind"], made["labels"]) == ("competing", ["repaid", "default"])
    table = run("predict", folder, data, "--at", "4,2", "--quiet").out.splitlines()
    assert len(table) == 161
    assert table[0] == (
        "incidence,ever_repaid,ever_default,survival_2,survival_4,incidence_repaid_2,"
        "incidence_repaid_4,incidence_default_2,incidence_default_4"
    )
    assert "default +" in run("info", folder).out
    asked = ["report", folder, data, "--out", tmp_path / "a.html", "--pairs", 10]
    report = run(*asked, "--quiet", "--json").json
    assert "All causes side by side" in report["sections"]
    assert set(report["scores"]) == {"concordance"}
    for changed, message in (
        (("--increasing", "debt", "--kind", "competing"), "must say for which cause of 'ended'"),
        (("--increasing", "fraud:debt"), "name the cause 'fraud', and 'ended' has no such value"),
    ):
        asked = ["fit", data, "--target", "years", "--event", "ended", "--out", tmp_path / "b"]
        assert message in " ".join(run(*asked, *changed).err.split())


def test_mean_incidences_are_those_of_aalen_and_johansen_on_transplants():
    """Of chronic GVHD, death and relapse (Pintilie 2006; `cgvhd`), with 99 % intervals."""
    pytest.importorskip("sksurv", reason="the table and the estimates are scikit-survival's")
    from sksurv.datasets import load_cgvhd
    from sksurv.nonparametric import cumulative_incidence_competing_risks

    table, y = load_cgvhd()
    time, cause = y["ftime"].astype(float), y["status"]
    options = {"epochs": 30, "members": 4, "hidden": 16}
    model = GCMCompetingRisks(**options).fit(table[["age", "dx"]], (cause, time))
    at = np.quantile(time, [0.25, 0.5, 0.75])
    found = model.predict_cumulative_incidence(table[["age", "dx"]], at).mean(0)
    options = {"conf_type": "log-log", "conf_level": 0.99}
    steps, shares, ends = cumulative_incidence_competing_risks(cause, time, **options)
    place = np.searchsorted(steps, at, side="right") - 1
    for k, name in enumerate(model.causes_):
        low, high = ends[int(name)][:, place]
        assert (low <= found[:, k]).all(), name
        assert (found[:, k] <= high).all(), name
        assert np.abs(found[:, k] - shares[int(name)][place]).max() < 0.1, name
