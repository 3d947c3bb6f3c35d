"""Shuffled batches: each training row once an epoch, and the same whenever it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from streamed_rows import files, in_batches, in_memory, opened, surveyed, table
from torch import Tensor

from pyro_gcm.streams import BatchRows, ShuffledRows, Source

Layout = tuple[Source, dict[str, int]]
#: Row groups smaller and larger than the windows, many windows and one, and batches of any size.
LAYOUTS = {
    "small groups": {"row_group": 30, "window": 100, "batch_size": 16},
    "large groups": {"row_group": 300, "window": 100, "batch_size": 16},
    "one window": {"row_group": 64, "window": 5000, "batch_size": 23},
    "one batch": {"row_group": 64, "window": 50, "batch_size": 5000},
    "a batch a window": {"row_group": 64, "window": 1, "batch_size": 50},
}


def shuffled(source: Source, **options: Any) -> ShuffledRows:
    options = {"seed": 3, "share": 0.2, "batch_size": 16, "window": 100, **options}
    found = surveyed(source, seed=options["seed"], share=options["share"])
    return ShuffledRows(source, found, **options)


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> Layout:
    options = dict(LAYOUTS[request.param])
    data = files(tmp_path / "data", table(), [400, 350, 250], options.pop("row_group"))
    return opened(data), options


def rows_of(batches: list[list[Tensor]]) -> list[int]:
    return [int(y) for batch in batches for y in batch[2]]


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_an_epoch_has_each_training_row_once(layout: Layout, share: float) -> None:
    source, options = layout
    stream = shuffled(source, share=share, **options)
    batches = list(stream.epoch(0))
    found = surveyed(source, share=share, sample_rows=1000)
    expected = in_memory(table())
    rows = rows_of(batches)
    assert sorted(rows) == found.sample["y"].tolist()
    assert len(rows) == stream.rows
    assert stream.rows == 1000 - len(found.validation["y"])
    assert stream.steps == len(batches)
    sizes = [len(batch[2]) for batch in batches]
    assert set(sizes[:-1]) <= {options["batch_size"]}
    assert 0 < sizes[-1] <= options["batch_size"]
    for at, name in enumerate(("x", "r", "y")):
        assert torch.equal(torch.cat([batch[at] for batch in batches]), expected[name][rows])


def test_orders_differ_by_epoch_and_seed_and_by_nothing_else(layout: Layout) -> None:
    source, options = layout
    one, same = shuffled(source, **options), shuffled(source, **options)
    first = rows_of(list(one.epoch(0)))
    assert first == rows_of(list(same.epoch(0)))
    assert first != rows_of(list(one.epoch(1)))
    assert first != rows_of(list(shuffled(source, seed=4, **options).epoch(0)))
    assert first != sorted(first)
    other = rows_of(list(shuffled(source, seed=4, share=0.0, **options).epoch(0)))
    assert other != rows_of(list(shuffled(source, seed=3, share=0.0, **options).epoch(0)))


def test_batches_of_an_iterable_are_shuffled() -> None:
    source = BatchRows(in_batches(table(), 64))
    whole = list(shuffled(source).epoch(1))
    assert rows_of(whole) != sorted(rows_of(whole))
    assert sorted(rows_of(whole)) == surveyed(source, sample_rows=1000).sample["y"].tolist()


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_origin_of_a_batch_is_the_numbers_of_its_rows(layout: Layout, share: float) -> None:
    source, options = layout
    stream = shuffled(source, share=share, **options)
    for number in (0, 1):
        for at, batch in enumerate(stream.epoch(number)):
            assert stream.origin(at) == rows_of([batch])


def test_batches_have_memory_of_their_own() -> None:
    stream = shuffled(BatchRows(in_batches(table(), 300)), batch_size=1000, share=0.0)
    (first,), (again,) = stream.epoch(0), stream.epoch(0)
    again[0].zero_()
    (third,) = stream.epoch(0)
    assert torch.equal(first[0], third[0])
    assert rows_of([first]) != sorted(rows_of([first]))


def test_rows_that_are_no_longer_there_are_noticed() -> None:
    data = in_batches(table(), 100)
    stream = shuffled(BatchRows(data))
    data.append(data[0])
    with pytest.raises(ValueError, match="the rows that it had before, got another number"):
        list(stream.epoch(0))
    del data[5:]
    with pytest.raises(ValueError, match="the rows that it had before, got another number"):
        list(stream.epoch(0))
