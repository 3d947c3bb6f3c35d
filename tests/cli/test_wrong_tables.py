"""Tables that are not what they seem: one line that says what is wrong, before any work is done."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from command_line import QUICK, run
from loan_table import table

from pyro_gcm._utils.console import one_line

HEADER = b"a,b,y\n"
ROWS = b"1,2,0\n2,3,1\n" * 20
WRONG = {
    "empty": (b"", "cannot be read: it is empty"),
    "a header alone": (HEADER, "has no rows"),
    "a mark of UTF-8": (
        b"\xef\xbb\xbfa;b\n1;2\n",
        "must have columns separated by commas, got 'a;b'",
    ),
    "Latin 1": ("a,näme,y\n".encode("latin-1"), "text in UTF-8, and its byte 4 is not (0xe4)"),
    "UTF-16": ("a,b,y\n".encode("utf-16"), "it must be text in UTF-8, and its byte 1 is not"),
    # pandas would take the first column for the names of the rows, and shift all others.
    "fields": (HEADER + b"1,2,0,9\n" * 20, "more fields than the header, which names 3 columns"),
    "a long row": (HEADER + ROWS + b"1,2,3,4,0\n", "read: Expected 3 fields in line 42, saw 5"),
    "an open quote": (HEADER + b'1,"2,0\n' + ROWS, "cannot be read: EOF inside string"),
    "a space": (b"a,b,y \n" + ROWS, "has no column 'y'; did you mean 'y '?"),
    "decimal commas": (
        HEADER + b'"1,5",2,0\n"2,5",3,1\n' * 20,
        "column 'a' has numbers, and fields that are not read as numbers, such as '1,5' in row 1",
    ),
    "one outcome": (
        HEADER + b"1,2,0\n2,3,0\n" * 20,
        "--target 'y' must have two values, or numbers",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_is_told_in_one_line(case: str, folder: Path) -> None:
    content, message = WRONG[case]
    (folder / "wrong.csv").write_bytes(content)
    done = run("fit", "wrong.csv", "--target=y", "--increasing=a", "--out=new")
    assert done.code == 2, done.err
    assert message in done.err
    assert (done.out, done.err.count("\n")) == ("", 1)
    assert not (folder / "new").exists()


def test_a_column_with_one_value_is_warned_of() -> None:
    table()[["debt", "default"]].assign(flat=5.0).to_csv("flat.csv", index=False)
    done = run("fit", "flat.csv", "--target=default", "--increasing=debt,flat", "--out=new", *QUICK)
    assert done.code == 0
    assert done.err == "pyro-gcm fit: warning: column 'flat' has the same value in all rows\n"


def test_of_many_columns_the_first_are_shown_and_all_are_read() -> None:
    data = table()[["debt", "default"]]
    many = {f"x{at}": range(60) for at in range(200)}
    pd.concat([data, pd.DataFrame(many)], axis=1).to_csv("wide.csv", index=False)
    done = run("fit", "wide.csv", "--target=default", "--increasing=debt", "--out=new", *QUICK)
    assert "│ x97 " in done.out
    assert "│ x98 " not in done.out
    assert "and 102 more" in done.out
    assert len(run("info", "new", "--json").json["columns"]) == 201


def test_an_error_of_the_system_has_no_number() -> None:
    with pytest.raises(OSError, match="Errno") as caught:
        Path("no such file").read_bytes()
    assert one_line(caught.value) == "No such file or directory: 'no such file'"
