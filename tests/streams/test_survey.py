"""One pass: statistics, the sample and the rows for validation are those of the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from streamed_rows import files, in_batches, in_memory, opened, surveyed, table

from pyro_gcm.streams import Survey, open_source
from pyro_gcm.streams.blocks import Block
from pyro_gcm.streams.draws import held_out, keys, training_count


def same(one: Block, other: Block) -> bool:
    return all(torch.equal(one[name], other[name]) for name in ("x", "r", "y"))


def test_statistics_are_those_of_the_training_rows() -> None:
    found = surveyed(opened(table()), sample_rows=1000)
    rows, held_out = found.sample, found.validation
    assert sorted([*rows["y"].tolist(), *held_out["y"].tolist()]) == list(range(1000))
    assert 150 < len(held_out["y"]) < 250
    for name, moments in (("x", found.x), ("r", found.r)):
        values = rows[name].double()
        torch.testing.assert_close(moments.mean, values.mean(0), rtol=1e-12, atol=0.0)
        std = values.std(0, correction=0)
        torch.testing.assert_close(moments.std, std, rtol=1e-12, atol=0.0)
        assert torch.equal(moments.least, values.amin(0))
        assert torch.equal(moments.largest, values.amax(0))
        assert moments.count == len(values)


def test_a_small_table_is_the_sample_as_it_is() -> None:
    found = surveyed(opened(table()), share=0.0, sample_rows=1000)
    assert found.rows == 1000
    assert same(found.sample, in_memory(table()))
    assert found.validation["x"].shape == (0, 3)


def test_the_sample_and_the_validation_rows_do_not_depend_on_the_layout(tmp_path: Path) -> None:
    rows = table(40_000)
    layouts: list[Survey] = [
        surveyed(source, sample_rows=300, most_bytes=1 << 24)
        for source in (
            opened(files(tmp_path / "a", rows, [40_000], 40_000)),
            opened(files(tmp_path / "b", rows, [1, 20_000, 19_999], 777)),
            opened(rows),
            opened(rows.to_pandas()),
            open_source(in_batches(rows, 16_000)),
            open_source(in_batches(rows, 17)),
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


def test_the_checksum_tells_a_change_of_one_value() -> None:
    rows = table()
    x = in_memory(rows)["x"].clone()
    changed = {**in_memory(rows), "x": x}
    before = surveyed(open_source([changed])).checksums
    assert before == surveyed(open_source(in_batches(rows, 17))).checksums
    x[999, 2] += 1.0
    assert surveyed(open_source([changed])).checksums != before


def test_each_block_is_checked_with_the_number_of_its_first_row() -> None:
    seen: list[int] = []
    rows = table(40_000)

    def check(block: Block, first: int) -> None:
        assert block["y"].tolist() == list(range(first, first + len(block["y"])))
        seen.append(first)

    surveyed(opened(rows), check=check, most_bytes=1 << 24)
    assert seen[0] == 0
    assert len(seen) >= 3


def test_validation_rows_that_do_not_fit_are_refused_before_others_are_read() -> None:
    def check(block: Block, first: int) -> None:
        raise AssertionError

    # 2,000 of 10,000 rows of 6 numbers in float32, about 48,000 bytes; half fits.
    with pytest.raises(
        ValueError, match=r"validation=0.2 keeps [\d,]+ rows in memory, .*: at most 0\.09\d? fits"
    ):
        surveyed(opened(table(10_000)), most_bytes=24_000, check=check)
    with pytest.raises(ValueError, match=r"more than [0-9,]+ of the first [0-9,]+ rows in memory"):
        surveyed(open_source(in_batches(table(10_000), 100)), most_bytes=24_000)


def test_data_without_training_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="data has no rows"):
        surveyed(open_source([]))
    with pytest.raises(ValueError, match=r"validation must leave rows to train on, got 0.999"):
        surveyed(opened(table(2)), share=0.999)


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
    assert training_count(7, share, 0, ROWS) == ROWS - drawn.sum()
    assert (drawn <= held_out(7, 0.9995, 0, ROWS)).all()  # a larger share keeps those of a smaller
