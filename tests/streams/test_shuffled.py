"""Shuffled batches: each training row once an epoch, and the same whenever it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from streamed_rows import files, in_batches, in_memory, opened, surveyed, table
from torch import Tensor

from pyro_gcm.streams import BatchRows, ShuffledRows, Source

#: Row groups smaller and larger than the windows, many windows and one, and batches of any size.
LAYOUTS = {
    "small groups": {"row_group": 30, "window": 100, "batch_size": 16},
    "large groups": {"row_group": 300, "window": 100, "batch_size": 16},
    "one window": {"row_group": 64, "window": 5000, "batch_size": 23},
    "one batch": {"row_group": 64, "window": 50, "batch_size": 5000},
    "a batch a window": {"row_group": 64, "window": 1, "batch_size": 50},
}


def shuffled(
    source: Source, batch_size: int = 16, window: int = 100, **options: Any
) -> ShuffledRows:
    return surveyed(source, **options).in_batches(batch_size, window)


def layouts(folder: Path) -> Iterator[tuple[str, Source, dict[str, int]]]:
    for name, options in LAYOUTS.items():
        options = dict(options)
        data = files(folder / name, table(), [400, 350, 250], options.pop("row_group"))
        yield name, opened(data), options


def rows_of(batches: list[list[Tensor]]) -> list[int]:
    return [int(y) for batch in batches for y in batch[2]]


def test_an_epoch_has_each_training_row_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    expected = in_memory(table())
    for name, source, options in layouts(tmp_path):
        for share in (0.0, 0.2):
            stream = shuffled(source, share=share, **options)
            batches = list(stream.epoch(0))
            survey = surveyed(source, share=share, sample_rows=1000)
            rows = rows_of(batches)
            assert sorted(rows) == survey.sample["y"].tolist(), name
            assert len(rows) == stream.rows == 1000 - len(survey.validation["y"])
            assert stream.steps == len(batches)
            sizes = [len(batch[2]) for batch in batches]
            assert set(sizes[:-1]) <= {options["batch_size"]}
            assert 0 < sizes[-1] <= options["batch_size"]
            for place, column in enumerate(("x", "r", "y")):
                values = torch.cat([batch[place] for batch in batches])
                assert torch.equal(values, expected[column][rows]), name
            same, later = (rows_of(list(stream.epoch(number))) for number in (0, 1))
            assert rows == same != later, name
            reseeded = shuffled(source, share=share, **options, seed=4)
            assert rows_of(list(reseeded.epoch(0))) != rows != sorted(rows), name


def test_batches_of_an_iterable_are_shuffled_and_have_memory_of_their_own() -> None:
    source = BatchRows(in_batches(table(), 64))
    whole = list(shuffled(source).epoch(1))
    assert rows_of(whole) != sorted(rows_of(whole))
    assert sorted(rows_of(whole)) == surveyed(source, sample_rows=1000).sample["y"].tolist()
    stream = shuffled(BatchRows(in_batches(table(), 300)), batch_size=1000, share=0.0)
    (first,), (again,) = stream.epoch(0), stream.epoch(0)
    again[0].zero_()
    (third,) = stream.epoch(0)
    assert torch.equal(first[0], third[0])


def test_rows_that_are_no_longer_there_are_noticed() -> None:
    data = in_batches(table(), 100)
    stream = shuffled(BatchRows(data))
    data.append(data[0])
    with pytest.raises(ValueError, match="the rows that it had before, got another number"):
        list(stream.epoch(0))
    del data[5:]
    with pytest.raises(ValueError, match="the rows that it had before, got another number"):
        list(stream.epoch(0))


def test_data_that_does_not_fit_is_refused() -> None:
    rows = BatchRows(in_batches(table(100_000), 1000), memory=1 << 20)  # of 24 bytes each
    with pytest.raises(ValueError, match=r"validation=0.2 keeps more rows than fit into a quarter"):
        surveyed(rows)
    with pytest.raises(ValueError, match="data has no rows to train on"):
        surveyed(BatchRows([]))
    with pytest.raises(ValueError, match=r"data has no rows to train on, got 0.999 of 2 for valid"):
        surveyed(BatchRows(in_batches(table(2), 2)), share=0.999)
