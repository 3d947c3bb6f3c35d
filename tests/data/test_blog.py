"""Blog Feedback keeps every row by default, and reproduces the published errors on request."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

# As in the UCI description, where attributes count from 1.
R = [51, 52, 53, 54, 56, 57, 58, 59]
X = [i for i in range(1, 281) if i not in (*R, 13, 33, 38, 278)]
TRAIN = "blogData_train.csv"


@pytest.fixture(scope="module")
def lines(real, raw_folder: Path) -> dict[str, list[bytes]]:
    """The lines of every file, the training file first, then the test files by date."""
    real("blog")  # skips without the file
    with zipfile.ZipFile(raw_folder / "blog" / "BlogFeedback.zip") as archive:
        names = [TRAIN, *sorted(set(archive.namelist()) - {TRAIN})]
        return {name: archive.read(name).splitlines() for name in names}


def comments(rows: list[bytes]) -> list[float]:
    return [float(row.rsplit(b",", 1)[1]) for row in rows]


@pytest.mark.parametrize("variant", ["default", "published"])
def test_columns_are_those_that_vary_and_rows_are_in_time_order(real, variant: str) -> None:
    dataset = real("blog", variant)
    assert dataset.x_names == tuple(f"attribute {i}" for i in X)
    assert (dataset.y * 8).unique().tolist() == list(range(9))
    assert torch.cat(dataset.fixed_split()).equal(torch.arange(len(dataset)))
    assert (dataset.x.amax(0) > dataset.x.amin(0)).all()
    assert (dataset.r.amax(0) > dataset.r.amin(0)).all()


def test_default_has_every_post_with_at_most_8_comments(real, lines) -> None:
    kept = [[y / 8 for y in comments(rows) if y <= 8] for rows in lines.values()]
    dataset = real("blog")
    train, test = dataset.fixed_split()
    assert dataset.y[train].tolist() == kept[0]
    assert dataset.y[test].tolist() == [y for part in kept[1:] for y in part]


def test_published_loses_the_first_row_of_each_file_and_wraps_the_response(real, lines) -> None:
    wrapped = [np.array(comments(rows[1:]), np.int64).astype(np.uint8) for rows in lines.values()]
    kept = [y[y <= 8] / 8 for y in wrapped]
    dataset = real("blog", "published")
    train, test = dataset.fixed_split()
    np.testing.assert_array_equal(dataset.y[train], kept[0])
    np.testing.assert_array_equal(dataset.y[test], np.concatenate(kept[1:]))


@pytest.mark.parametrize("place", [0, 47_287, -1])
def test_default_is_in_raw_units(real, lines, place: int) -> None:
    rows = [row for part in lines.values() for row in part if float(row.rsplit(b",", 1)[1]) <= 8]
    values = [float(value) for value in rows[place].split(b",")]
    dataset = real("blog")
    np.testing.assert_allclose(dataset.x[place], [values[i - 1] for i in X], rtol=1e-15)
    assert dataset.r[place].tolist() == [values[i - 1] for i in R]


def test_published_scales_over_all_its_rows(real, lines) -> None:
    rows = [row for part in lines.values() for row in part[1:]]
    rows = [row for row in rows if int(float(row.rsplit(b",", 1)[1])) % 256 <= 8]
    wanted = np.loadtxt([row.decode() for row in rows], delimiter=",", usecols=[50, 61])
    wanted = (wanted - wanted.min(0)) / (wanted.max(0) - wanted.min(0))
    dataset = real("blog", "published")
    np.testing.assert_allclose(dataset.r[:, 0], wanted[:, 0], rtol=1e-13)
    length = dataset.x_names.index("attribute 62")  # of the post
    np.testing.assert_allclose(dataset.x[:, length], wanted[:, 1], rtol=1e-13)
    for values in (dataset.x, dataset.r):
        assert (values.amin(0) == 0).all()
        assert (values.amax(0) == 1).all()
