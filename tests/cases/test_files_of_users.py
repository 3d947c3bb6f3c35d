"""Files are read as they are meant: the same rows give the same model, and the rest is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pyro_gcm import load
from pyro_gcm.cli.saved import open_model
from pyro_gcm.cli.target import outcomes_of

LATE = "--target=late"


def table(count: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    debt = rng.uniform(0, 50, count).round(1)
    late = debt + rng.normal(0, 10, count) > 25
    job = rng.choice(["clerk", "farmer", "smith"], count)
    return pd.DataFrame({"debt": debt, "job": job, "late": np.where(late, "yes", "no")})


def test_numbers_in_other_forms_are_no_categories(fit: Any) -> None:
    for fields, message in (
        (
            ["1,234", "22,345", "333,456", "4,567"],
            "'1,234' in row 1, '22,345' in row 2, '333,456' in row 3: --decimal , reads '1,234' as "
            "1.234, or --thousands , reads '1,234' as 1234; --text debt makes",
        ),
        (["900", "1,234.5"], "'1,234.5' in row 2: --thousands , reads '1,234.5' as 1234.5;"),
        (["1,5", "2"], "'1,5' in row 1: --decimal , reads '1,5' as 1.5;"),
        (["1.234,5"], "--decimal , --thousands . reads '1.234,5' as 1234.5;"),
        (["1 234"], "--thousands ' ' reads '1 234' as 1234;"),
        (["$5", "7"], "'$5' in row 1: write plain numbers in one form, without signs of a"),
        (["5 EUR"], "write plain numbers"),
        (["5%"], "write plain numbers"),
        (["(5)", "7"], "write plain numbers"),
        ([*map(str, range(39)), "?"], "'?' in row 40: --missing '?' reads the others as missing"),
        ([*map(str, range(39)), " "], "' ' in row 40: --missing '\" \"' reads the others as"),
        (["1", ".", "-"], "'.' in row 2, '-' in row 3: --missing .,- reads the others as missing"),
        ([*map(str, range(39)), "lots"], "'lots' in row 40: --missing lots reads the others"),
        (["2020-01-31", "2020-02-01"], "has dates or times, such as '2020-01-31' in row 1"),
        (["31.01.2020 12:30"], "has dates or times"),
        (["Jan 3, 2020", "5 Feb 2020"], "has dates or times"),
        (["12:30", "1:15"], "has dates or times"),
    ):
        data = table().assign(debt=np.resize(np.array(fields, dtype=object), 40), years=1.0)
        for role in ("--increasing=debt", "--increasing=years"):
            said = fit(data, LATE, role, code=2).err
            assert said.count("\n") == 1, said
            assert "DATA data.csv: column 'debt' has " in said
            assert message in said
        # It is taken as text, or left out, where that is asked for; --test-share ends it untrained.
        for option in ("--text=debt", "--ignore=debt"):
            done = fit(data, LATE, role, option, "--test-share=0.99", code=2)
            assert "--test-share: " in done.err


def test_other_text_makes_categories(fit: Any) -> None:
    versions, addresses, sizes = ["1.2.3", "1.10.0"], ["10.0.0.1", "10.0.0.23"], ["34 56", "38 70"]
    ranges, codes = ["18-25", "26-35"], ["A1", "B2"]
    for levels in (["1", "2", "x"], ranges, codes, ["?", "-"], versions, addresses, sizes):
        done = fit(table().assign(job=np.resize(levels, 40)), LATE, "--json")
        assert done.types["job"] == f"text, {len(levels)} values"


def test_a_model_reads_the_files_of_all_commands_as_in_fit(fit: Any, run: Any) -> None:
    data = table().assign(income=np.arange(40) * 1234.5)
    data.loc[3, ["debt", "job"]] = np.nan
    other = data.assign(
        income=[f"{n:,.1f}".translate(str.maketrans(".,", ",.")) for n in data["income"]],
        debt=[str(n).replace(".", ",").replace("nan", "?") for n in data["debt"]],
    )
    both = LATE, "--increasing=debt,income"
    fit(data, *both)
    expected = run("predict", "model", "data.csv").out
    options = "--missing=?", "--decimal=,", "--thousands=."
    done = fit(other.fillna({"job": "?"}), *both, *options)
    assert "classifier, --missing '?' --decimal , --thousands ." in done.out
    assert run("predict", "model", "data.csv").out == expected
    kept = run("predict", "model", "data.csv", "--keep=income,debt").rows
    assert [row["debt"] for row in kept] == other["debt"].tolist()
    ask = "--column=debt", "--values=0,50"
    assert len(run("surface", "model", "data.csv", *ask).rows) == 80
    run("required", "model", "data.csv", "--column=debt", "--probability=0.5")
    run("audit", "model", "data.csv", "--pairs=9")
    came = outcomes_of(open_model(Path("model")), Path("data.csv"), target=None, event=None)
    assert came.X["income"].tolist() == data["income"].tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n \n{}", ""),
        ("\ufeff{}", ""),
        ("index", "column 1 has no name and is left out, as the index that pandas or R writes"),
        ("text index", "column 1 has no name and is left out"),
        ("comma", "column 4 has no name and no values, and is left out"),
        ("unnamed", "column 'Unnamed: 0' has the name that pandas gives to an index without one"),
    ],
)
def test_what_stands_around_the_table_is_no_input(text: str, said: str, fit: Any) -> None:
    lines = table().to_csv(index=False).splitlines()
    made = {
        "index": table().to_csv(),
        "text index": table().set_axis([f"row {at}" for at in range(40)]).to_csv(),
        "comma": "".join(f"{line},\n" for line in lines),
        "unnamed": table()[::-1].rename_axis("Unnamed: 0").to_csv(),
    }
    plain = "\n".join(lines)
    data = made.get(text, text.format(plain))
    # --text is read beside an empty line too.
    assert "'debt' must have numbers" in fit(data, LATE, "--text=debt,job", code=2).err
    assert said in fit(data, LATE).err
    assert set(load("model").feature_names_in_) - {"Unnamed: 0"} == {"debt", "job"}


def test_no_tables_and_wrong_marks_are_told(fit: Any) -> None:
    for data, options, message in (
        ("debt,late\n1,no\ndebt,late\n2,yes\n", "", "its row 2 is the header again: remove it"),
        ("debt,,late\n1,5,no\n2,6,yes\n", "", "its column 2 must have a name, and has none"),
        ("debt,late,debt\n1,no,2\n", "", "has more than one column 'debt'"),
        (table(), "--decimal=;", "--decimal must be . or , (a full stop or a comma), got ';'"),
        (table(), "--thousands=12", "--thousands must be one sign that is no letter, digit, +"),
        (table(), "--thousands=.", "--thousands and --decimal must differ, and both are '.'"),
    ):
        assert message in fit(data, LATE, *options.split(), code=2).err


def test_text_that_says_missing_is_a_level_in_every_format(fit: Any, run: Any) -> None:
    data = table().assign(job=np.resize(["NA", "None", "nan", "DE"], 40))
    data.loc[5, "job"] = None
    data.to_parquet("data.parquet")
    data.to_csv("data.csv", index=False)
    found = {}
    for ending in ("parquet", "csv"):
        done = fit(Path(f"data.{ending}"), LATE)
        for other in ("parquet", "csv"):
            found[ending, other] = run("predict", "model", f"data.{other}", "--keep=job").out
    assert len(set(found.values())) == 1
    assert "column 'job' has the text NA, None, nan: --missing NA,None,nan if" in done.err
    assert [row["job"] for row in run("predict", "model", "data.csv", "--keep=job").rows] == data[
        "job"
    ].fillna("").tolist()
    assert fit(data, LATE, "--missing=NA,nan", "--json").types["job"] == "text, 2 values"


def test_classes_have_the_letters_of_the_file(fit: Any, run: Any) -> None:
    for labels in (["-1", "+1"], ["FALSE", "TRUE"], ["01", "02"], ["NA", "no"], ["0.50", "10"]):
        text = table().assign(late=np.resize(labels, 40), id=np.resize(["007", "1.50", "NA"], 40))
        fit(text, LATE, "--ignore=id")
        model = open_model(Path("model"))
        assert set(model.labels) == set(labels)
        assert model.facts["positive"] == labels[1]  # the higher value
        rows = run("predict", "model", "data.csv", "--keep=id,late").rows
        assert {row["class"] for row in rows} <= set(labels)
        assert [row["late"] for row in rows] == text["late"].tolist()
        assert [row["id"] for row in rows] == text["id"].tolist()
        fit(text, LATE, "--ignore=id", f"--positive={labels[0]}")
        model = open_model(Path("model"))
        assert model.facts["positive"] == labels[0]
        came = outcomes_of(model, Path("data.csv"), target=None, event=None)
        assert came.y is not None
        assert len(set(zip(came.y.tolist(), text["late"], strict=True))) == 2


def test_levels_have_the_letters_of_the_file_and_any_order(fit: Any) -> None:
    for levels, option, labels in (
        (["10", "09", "+8"], "--kind=ordinal", ["+8", "09", "10"]),  # in the order of numbers
        (["10", "09", "+8"], "--levels=10,09,+8", ["10", "09", "+8"]),
        # One that no row has keeps its place too.
        (
            ["few, or none", " many"],
            '--levels="few, or none"," many",all',
            ["few, or none", " many", "all"],
        ),
    ):
        fit(table().assign(grade=np.resize(levels, 40)), "--target=grade", "--ignore=late", option)
        assert open_model(Path("model")).labels == labels


def test_columns_with_blanks_and_commas_are_named_in_lists(fit: Any, run: Any) -> None:
    names = {"debt": " debt", "job": "job, now", "late": " late "}
    data = table().assign(years=range(40), **{"a,b": range(40)}).rename(columns=names)
    lists = '--increasing= debt,"a,b"', "--decreasing=years", '--text="job, now"'
    fit(data, "--target= late ", *lists)
    assert load("model").monotonic_cst == {" debt": 1, "a,b": 1, "years": -1}
    rows = run("predict", "model", "data.csv", '--keep= debt,"job, now"').rows
    assert [row["job, now"] for row in rows] == data["job, now"].tolist()


def test_levels_of_an_index_are_columns_of_parquet(fit: Any, run: Any) -> None:
    data = table().assign(years=range(40, 0, -1))
    data.set_index(["years", "job"]).to_parquet("data.parquet")
    data.to_csv("data.csv", index=False)
    found = []
    for ending in ("parquet", "csv"):
        fit(Path(f"data.{ending}"), LATE, "--ignore=job")
        found.append(run("predict", "model", "data.csv").out)
    assert set(load("model").feature_names_in_) == {"debt", "years"}
    data.set_index(data["job"].rename(None)).to_parquet("data.parquet")
    assert "its index has no name and is left out" in fit(Path("data.parquet"), LATE).err
    data[::2].to_parquet("data.parquet")  # rows that pandas numbers are no index of the user
    assert "index" not in run("predict", "model", "data.parquet").err


def test_categories_of_numbers_stay_categories(fit: Any, run: Any) -> None:
    grade = pd.Categorical(np.resize([1, 2, 3], 40), [3, 2, 1], ordered=True)
    region = pd.Categorical(np.resize([1, 2], 40))
    data = table().assign(grade=grade, region=region)
    data.to_parquet("data.parquet")
    data.to_feather("data.feather")
    both = LATE, "--increasing=debt,grade", "--json"
    done = fit(Path("data.parquet"), *both, code=2)  # a file without the order
    assert "column 'grade' had categories with an order, which Parquet keeps of text" in done.err
    assert "--increasing 'grade' must have numbers, booleans or an ordered category" in done.err
    done = fit(Path("data.feather"), *both)
    assert done.types["grade"] == "ordered category, 3 levels"
    assert done.types["region"] == "category, 2 levels"
    assert load("model").encoding_.columns[2].levels == [3.0, 2.0, 1.0]
    expected = run("predict", "model", "data.feather").out
    assert run("predict", "model", "data.parquet").out == expected
    rows = run("surface", "model", "data.feather", "--column=grade", "--values=3,1").rows
    assert len(rows) == 80
    assert fit(Path("data.parquet"), LATE, "--json").types["grade"] == "category, 3 levels"


COMMANDS = {
    "predict": ("probability", "class", "lower"),
    "required": ("required", "upper", "beyond"),
    "surface": ("row", "prediction", "debt", "lower"),
}
OPTIONS = {
    "predict": ["--bands"],
    "required": ["--column=debt", "--probability=0.5"],
    "surface": ["--column=debt", "--values=0,50", "--bands"],
}


def test_a_result_never_overwrites_a_column(fit: Any, run: Any) -> None:
    names = sorted({name for of_command in COMMANDS.values() for name in of_command} - {"debt"})
    data = table().assign(**{name: range(40) for name in names})
    fit(data, LATE, "--increasing=debt,row,prediction")
    for command, columns in COMMANDS.items():
        for name in columns:
            asked = command, "model", "data.csv", *OPTIONS[command], "--keep", name
            done = run(*asked, code=2)
            assert f"--keep '{name}' has the name of a column of the result" in done.err
    for name in ("row", "prediction"):
        done = run("surface", "model", "data.csv", "--column", name, "--values=0,50", code=2)
        assert f"--column '{name}' has the name of a column of the result" in done.err
    run("surface", "model", "data.csv", "--column=row", "--values=0,9", "--mean")
    run("plot", "model", "data.csv", "--column=prediction", "--values=0,9", "--out=a.svg")
    run("audit", "model", "data.csv", "--pairs=9")
