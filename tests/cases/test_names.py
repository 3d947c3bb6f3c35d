"""Names that people use: in figures, reports, on consoles and in the files of ArviZ."""

from __future__ import annotations

import datetime
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

from pyro_gcm import GCM, plots, to_arviz
from pyro_gcm.audit import audit_monotonicity
from pyro_gcm.cli import main
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.inference.program_arviz import imported_arviz

FORMULA = "_a $x_{^%$ \\{}"
NAMES = [FORMULA, "price_in_$_or_EUR_$", "two\nlines", "long " * 40, "債務", "חוב", "😀"]
#: What a font of matplotlib lacks is drawn as a box.
no_glyph = pytest.mark.filterwarnings("ignore:Glyph .* missing from:UserWarning")

CURVE = pd.DataFrame({"predicted": [0.1], "observed": [0.2], "count": [9], "standard_error": 0.1})
TIMES = SurvivalTimes.right_censored([1.0, 2.0, 3.0], [True, True, True])
X, R = np.zeros((60, 1)), np.linspace(0.0, 1.0, 60)[:, None]


def model() -> GCM:
    return GCM(1, 2, hidden=4, num_samples=8)


def audited(name: str) -> Figure:
    frame = pd.DataFrame(R, columns=[name])
    found = audit_monotonicity(lambda x, r: np.sin(4.0 * r[:, 0]), X, frame, pairs=300)
    return plots.plot_audit(found, outcome_name=name)


#: What draws a name.
PLOTS: dict[str, Callable[[str, Any], object]] = {
    "feature": lambda name, ax: plots.plot_feature_curve(
        pd.DataFrame({name: [0.0, 1.0], "prediction": 0.1, "lower": 0.0, "upper": 0.2}),
        outcome_name=name,
        band_name=name,
        ax=ax,
    ),
    "levels": lambda name, ax: plots.plot_feature_curve(
        pd.DataFrame({"a": ["low", name], "prediction": [0.1, 0.2]}), ax=ax
    ),
    "reliability": lambda name, ax: plots.plot_reliability(CURVE, label=name, ax=ax),
    "ranks": lambda name, ax: plots.plot_ranks([0, 1, 2], num_draws=9, label=name, ax=ax),
    "history": lambda name, ax: plots.plot_history(
        pd.DataFrame({"epoch": [1], "loss": [0.5]}), loss_name=name, ax=ax
    ),
    "bound": lambda name, ax: plots.plot_bound(
        pd.DataFrame({"num_particles": [1], "bound": [-1.0], "standard_error": [0.1]}),
        label=name,
        ax=ax,
    ),
    "latent": lambda name, ax: plots.plot_latent(
        np.eye(2), [0, 1], latent_name=name, outcome_name=name, ax=ax
    ),
    "colours": lambda name, ax: plots.plot_latent(np.eye(2), [0.5, 1], outcome_name=name, ax=ax),
    "survival": lambda name, ax: plots.plot_survival(
        [1.0], np.full((3, 1), 0.5), TIMES, groups=[name] * 3, time_name=name, ax=ax
    ),
    "responses": lambda name, ax: plots.plot_response_curves(
        model(), [[0.0]], labels=[name], revenue_name=name, outcome_name=name, ax=ax
    ),
    "cost": lambda name, ax: plots.plot_cost_density(model(), [0.0], label=name, ax=ax),
    "costs": lambda name, ax: plots.plot_cost_pairs(model(), [0.0], labels=[name, name], ax=ax),
    "audit": lambda name, ax: audited(name),
}


def texts(figure: Any) -> list[str]:
    """What a figure says, of its drawing, without the breaks of lines."""
    figure.savefig(io.BytesIO(), format="svg")
    return ["".join(text.get_text().split()) for text in figure.findobj(Text)]


@no_glyph
@pytest.mark.long(keep=10)
@pytest.mark.parametrize(
    ("plot", "name"), [*((plot, FORMULA) for plot in PLOTS), *(("feature", n) for n in NAMES)]
)
def test_a_name_is_drawn_as_it_is(plot: str, name: str) -> None:
    figure = Figure(layout="constrained")
    made = PLOTS[plot](name, figure.subplots())
    try:
        shown = texts(made if isinstance(made, Figure) else figure)
        assert any("".join(name.split()) in text for text in shown)
    finally:
        plt.close("all")


def test_a_legend_shows_names_that_begin_with_a_line() -> None:
    for plot in ("reliability", "bound", "survival", "responses", "feature", "latent"):
        ax = Figure().subplots()
        PLOTS[plot](FORMULA, ax)
        assert any(FORMULA in text.get_text() for text in ax.get_legend().get_texts()), plot


def test_a_long_label_is_in_lines_that_fit() -> None:
    ax = Figure().subplots()
    PLOTS["feature"]("long " * 40, ax)
    lines = ax.get_xlabel().split("\n")
    assert len(lines) > 1
    assert max(map(len, lines)) < 60


# The command line


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table whose columns have these names, and a model of it."""
    folder = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((40, len(NAMES))), columns=NAMES)
    frame["גדול"] = np.where(frame[NAMES[0]] > 0.5, "כן $", "לא $")
    frame.to_csv(folder / "data.csv", index=False)
    options = ["--target=גדול", "--increasing", NAMES[1], "--decreasing", NAMES[4]]
    quick = ["--epochs=1", "--members=2", "--quiet", "--out", str(folder / "model")]
    assert main(["fit", str(folder / "data.csv"), *options, *quick]) == 0
    return folder


Shown = Callable[..., tuple[str, str]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """A function that runs a command on consoles of an encoding, and returns what they show."""

    def run(encoding: str, *command: object, code: int = 0) -> tuple[str, str]:
        encodings = {"stdout": encoding, "stderr": "ascii"}
        streams = [
            io.TextIOWrapper(io.BytesIO(), encoding=each, errors="strict", write_through=True)
            for each in encodings.values()
        ]
        for name, stream in zip(encodings, streams, strict=True):
            monkeypatch.setattr(sys, name, stream)
        found = main([str(argument) for argument in command])
        out, err = (stream.buffer.getvalue().decode(stream.encoding) for stream in streams)
        assert found == code, err
        assert [stream.errors for stream in streams] == ["strict", "strict"]
        return out, err

    return run


@no_glyph
@pytest.mark.parametrize(
    "command",
    [
        *(["plot", "--values=0,1", "--out=curve.png", "--column", NAMES[n]] for n in (1, 4)),
        ["report", "--out=report.html", "--pairs=9"],
        ["audit", "--pairs=9", "--plot=audit.png"],
        ["surface", "--column", NAMES[1], "--values=0,1", "--out=surface.parquet"],
        ["predict", "--keep", NAMES[3], "--out=predictions.csv"],
    ],
    ids=lambda command: f"{command[0]} {command[-1][:9]}",
)
def test_every_command_takes_them_anywhere(command: list[str], place: Path, shown: Shown) -> None:
    shown("cp1252", command[0], place / "model", place / "data.csv", *command[1:])


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp437", "utf-8"])
def test_consoles_show_escapes_for_what_they_lack(encoding: str, place: Path, shown: Shown) -> None:
    out, _ = shown(encoding, "info", place / "model")
    assert ("債務" if encoding == "utf-8" else "\\u50b5\\u52d9") in out
    out, err = shown(encoding, "predict", place / "model", place / "data.csv")
    lacks = f"stdout has the encoding {encoding}, and characters that it lacks"
    assert (lacks in err) == (encoding != "utf-8")
    assert ("כן $" if encoding == "utf-8" else "\\u05db\\u05df $") in out


def falling() -> Callable[[Any], Any]:
    """For the command line of the audit."""
    return lambda values: -np.asarray(values).sum(1)


def test_the_audit_of_any_predictor_takes_them_too(place: Path, shown: Shown) -> None:
    names = ["--r", NAMES[4], "--x", NAMES[5]]
    command = "audit", f"{__name__}:falling", place / "data.csv", *names, "--pairs=60"
    assert "\\u50b5\\u52d9" in shown("ascii", *command, code=1)[0]


# ArviZ

DAYS = pd.date_range("2020-03-01", periods=3)
INDEXES: dict[str, tuple[Any, list[Any]]] = {
    "zone": (DAYS.tz_localize("Europe/Paris"), [f"2020-03-0{n} 00:00:00+01:00" for n in (1, 2, 3)]),
    "date": (DAYS, [np.datetime64(f"2020-03-0{n}") for n in (1, 2, 3)]),
    "years": (
        pd.Index(np.array(["0001-01-01", "2020-01-01", "9999-12-31"], dtype="M8[s]")),
        ["0001-01-01 00:00:00", "2020-01-01 00:00:00", "9999-12-31 00:00:00"],
    ),
    "day": ([datetime.date(2020, 3, n) for n in (1, 2, 3)], [f"2020-03-0{n}" for n in (1, 2, 3)]),
    "duration": (DAYS - DAYS[0], ["0 days 00:00:00", "1 days 00:00:00", "2 days 00:00:00"]),
    "period": (DAYS.to_period("D"), ["2020-03-01", "2020-03-02", "2020-03-03"]),
    "interval": (pd.interval_range(0, 3), ["(0, 1]", "(1, 2]", "(2, 3]"]),
    "category": (pd.CategoricalIndex([3, 1, 3]), [3, 1, 3]),
    "objects": ([1, "a", None], ["1", "a", "None"]),
    "nullable": (pd.Index([1, 2, 3], dtype="Int64"), [1, 2, 3]),
    "boolean": (pd.Index([True, False, True]), [True, False, True]),
    "text": (["a", "債務", ""], ["a", "債務", ""]),
    "complex": ([1j, 2j, 3j], ["1j", "2j", "3j"]),
    "levels": (pd.MultiIndex.from_product([[0], ["a", "b", "c"]]), [0, 1, 2]),
}


@pytest.mark.filterwarnings("ignore:.* rows have an effective sample size")
@pytest.mark.long(keep=5)
@pytest.mark.parametrize("kind", INDEXES)
def test_the_index_of_any_table_goes_into_a_file(kind: str, tmp_path: Path) -> None:
    index, wanted = INDEXES[kind]
    x = pd.DataFrame({"$a$": [0.1, 0.2, 0.3]}, index=index)
    made = GCM(1, 1, hidden=4, num_samples=8)
    made.learn_units(torch.rand(9, 1), torch.rand(9, 1), torch.ones(9))
    options = {"num_samples": 5, "num_proposals": 32, "progress": False}
    found = to_arviz(made, x, [[0.1]] * 3, [1.0, 0.0, 1.0], r_names=[("r", 1)], **options)
    assert list(found["posterior"]["datum"].values) == wanted
    found.to_netcdf(str(tmp_path / "draws.nc"))
    again = imported_arviz().from_netcdf(str(tmp_path / "draws.nc"))
    assert list(again["posterior"]["datum"].values) == wanted
    assert again["constant_data"]["covariate"].values.tolist() == ["$a$"]
    assert again["constant_data"]["revenue"].values.tolist() == ["('r', 1)"]
