"""Fields of a CSV file, and parts of a list in an option, are read as they are meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.cli.options import list_of, parts_of
from pyro_gcm.cli.tables import Reading, read_table


def column(*fields: str, **reading: Any) -> pd.Series:
    """A column of a CSV file, as it is read."""
    lines = [f'"{field}",1' for field in fields]
    Path("column.csv").write_text("\n".join(["a,b", *lines]), encoding="utf-8")
    return read_table(Path("column.csv"), Reading.of_options(**reading))["a"]


def test_a_column_has_the_type_of_all_its_fields() -> None:
    for fields, reading, values in (
        (("1", "2"), {}, [1, 2]),
        (("1", "", "2.5"), {}, [1.0, None, 2.5]),
        (("1", "NA", "nan", " NULL", "None"), {}, [1.0, *[None] * 4]),
        (("1", " "), {"missing": '" "'}, [1.0, None]),
        (("TRUE", "false", "NA"), {}, [True, False, None]),
        (("x", "NA", "None", "null", "nan", ""), {}, ["x", "NA", "None", "null", "nan", None]),
        (("x", "?", " ?", "-"), {"missing": "?"}, ["x", None, None, "-"]),
        (("1", "?", "-"), {"missing": "?,-"}, [1.0, None, None]),
        (("\u22125", "+7"), {}, [-5, 7]),
        (("1,5", "-2", ",5e1"), {"decimal": ","}, [1.5, -2.0, 5.0]),
        (("1,234,567", "12", "1,234.5"), {"thousands": ","}, [1234567.0, 12.0, 1234.5]),
        (("1.234,5", "NA"), {"thousands": ".", "decimal": ","}, [1234.5, None]),
        (("1\u202f234", "5 678"), {"thousands": " "}, [1234, 5678]),
        (("12,34", "5"), {"thousands": ","}, ["12,34", "5"]),  # no groups of three
        (("1_000", "2"), {}, ["1_000", "2"]),
        (("\u0661\u0662", "2"), {}, ["\u0661\u0662", "2"]),
        (("123456789012345678901234", "NA"), {}, [1.2345678901234568e23, None]),
    ):
        found = column(*fields, **reading).tolist()
        assert [None if value != value or value is None else value for value in found] == values, (
            fields
        )
        assert {type(value) for value in found if value == value} <= {type(v) for v in values}, (
            fields
        )


def test_numbers_beside_missing_ones_are_the_same_to_the_last_bit() -> None:
    numbers = np.random.default_rng(0).lognormal(0, 20, 500)
    alone = column(*map(repr, numbers.tolist()))
    beside = column(*map(repr, numbers.tolist()), "NA")
    assert (alone == numbers).all()
    assert (beside[:-1] == numbers).all()


def test_lists_keep_blanks_and_commas() -> None:
    for text, known, parts in (
        ("a, b,,c", (), ["a", "b", "c"]),
        (" debt, years", (" debt", " years"), [" debt", " years"]),
        ('a,"b, c"," d"', (), ["a", "b, c", " d"]),
        ("a,b", ("a,b",), ["a,b"]),
        ('5" pipe,"say ""x"""', (), ['5" pipe', 'say "x"']),
    ):
        assert parts_of(text, known) == parts, text
        assert parts_of(list_of(parts)) == parts, text
