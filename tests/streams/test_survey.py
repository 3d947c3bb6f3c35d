"""One pass: statistics, the sample and the rows for validation are those of the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from streamed_rows import files, in_batches, in_memory, opened, surveyed, table

from pyro_gcm.streams import BatchRows, Survey
from pyro_gcm.streams.passes import held_out, keys
from pyro_gcm.streams.sources import Block


def same(one: Block, other: Block) -> bool:
    return all(torch.equal(one[name], other[name]) for name in ("x", "r", "y"))


def test_statistics_are_those_of_the_training_rows() -> None:
    found = surveyed(BatchRows(in_batches(table(), 64)), sample_rows=1000)
    rows, held_out = found.sample, found.validation
    assert sorted([*rows["y"].tolist(), *held_out["y"].tolist()]) == list(range(1000))
    assert 150 < len(held_out["y"]) < 250
    for name, moments in (("x", found.x), ("r", found.r)):
        values = rows[name].double()
        torch.testing.assert_close(moments.mean, values.mean(0), rtol=1e-12, atol=0.0)
        std = values.std(0, correction=0)
        torch.testing.assert_close(moments.std, std, rtol=1e-12, atol=0.0)
        assert moments.count == len(values)


def test_a_small_table_is_the_sample_as_it_is(tmp_path: Path) -> None:
    found = surveyed(opened(files(tmp_path, table(), [1000], 300)), share=0.0, sample_rows=1000)
    assert found.rows == 1000
    assert same(found.sample, in_memory(table()))
    assert found.validation["x"].shape == (0, 3)


def test_the_sample_and_the_validation_rows_do_not_depend_on_the_layout(tmp_path: Path) -> None:
    rows = table(40_000)
    layouts: list[Survey] = [
        surveyed(source, sample_rows=300)
        for source in (
            opened(files(tmp_path / "a", rows, [40_000], 40_000)),
            opened(files(tmp_path / "b", rows, [1, 20_000, 19_999], 777)),
            BatchRows(in_batches(rows, 16_000)),
            BatchRows(in_batches(rows, 17)),
        )
    ]
    first = layouts[0]
    assert len(first.sample["y"]) == 300
    assert first.sample["y"].tolist() == sorted(first.sample["y"].tolist())
    for found in layouts[1:]:
        assert same(found.sample, first.sample)
        assert same(found.validation, first.validation)
        torch.testing.assert_close(found.x.mean, first.x.mean, rtol=1e-12, atol=0.0)
        torch.testing.assert_close(found.x.std, first.x.std, rtol=1e-12, atol=0.0)
    # Rows of the sample are spread over the data, and none is for validation.
    assert not set(first.sample["y"].tolist()) & set(first.validation["y"].tolist())
    assert np.histogram(first.sample["y"], 4, (0, 40_000))[0].min() > 45


def test_each_block_is_checked_with_the_number_of_its_first_row() -> None:
    seen: list[int] = []

    def check(block: Block, first: int) -> None:
        assert block["y"].tolist() == list(range(first, first + len(block["y"])))
        seen.append(first)

    surveyed(BatchRows(in_batches(table(), 300)), check=check)
    assert seen == [0, 300, 600, 900]


def test_validation_rows_that_do_not_fit_are_refused() -> None:
    rows = BatchRows(in_batches(table(100_000), 1000), memory=1 << 20)  # of 24 bytes each
    with pytest.raises(ValueError, match=r"validation=0.2 keeps more rows than fit into a quarter"):
        surveyed(rows)


def test_data_without_training_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="data has no rows to train on"):
        surveyed(BatchRows([]))
    with pytest.raises(ValueError, match=r"data has no rows to train on, got 0.999 of 2 for valid"):
        surveyed(BatchRows(in_batches(table(2), 2)), share=0.999)


# Keys depend on seed, purpose and row alone, and rows for validation are drawn by them


ROWS = 100_000


def test_keys_are_those_of_each_row_in_any_block() -> None:
    every = keys(0, "sample", 0, ROWS)
    parts = [keys(0, "sample", *bounds) for bounds in ((0, 1), (1, 70_001), (70_001, ROWS))]
    assert np.array_equal(np.concatenate(parts), every)
    assert len(np.unique(every)) == ROWS
    for other in (keys(1, "sample", 0, ROWS), keys(0, "validation", 0, ROWS)):
        assert abs(np.corrcoef(every / 2.0**64, other / 2.0**64)[0, 1]) < 5.0 / ROWS**0.5


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.1, 0.5, 0.999])
def test_the_share_of_validation_rows_is_as_asked(share: float) -> None:
    drawn = held_out(7, share, 0, ROWS)
    spread = (share * (1.0 - share) * ROWS) ** 0.5
    assert abs(drawn.sum() - share * ROWS) <= 4.0 * spread
    assert (drawn <= held_out(7, 0.9995, 0, ROWS)).all()  # a larger share keeps those of a smaller
