"""One pass: statistics, the sample and the rows for validation are those of the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from streamed_rows import files, in_batches, in_memory, opened, surveyed, table

from pyro_gcm.streams import BatchRows
from pyro_gcm.streams.sources import Block


def same(one: Block, other: Block) -> bool:
    return all(torch.equal(one[name], other[name]) for name in ("x", "r", "y"))


def test_statistics_are_those_of_the_training_rows(tmp_path: Path) -> None:
    survey = surveyed(BatchRows(in_batches(table(), 64)), sample_rows=1000)
    rows, held_out = survey.sample, survey.validation
    assert sorted([*rows["y"].tolist(), *held_out["y"].tolist()]) == list(range(1000))
    for name, moments in (("x", survey.x), ("r", survey.r)):
        values = rows[name].double()
        torch.testing.assert_close(moments.mean, values.mean(0), rtol=1e-12, atol=0.0)
        std = values.std(0, correction=0)
        torch.testing.assert_close(moments.std, std, rtol=1e-12, atol=0.0)
        assert moments.count == len(values)
    whole = surveyed(opened(files(tmp_path, table(), [1000], 300)), share=0.0, sample_rows=1000)
    assert whole.rows == 1000
    assert same(whole.sample, in_memory(table()))
    assert whole.validation["x"].shape == (0, 3)


def test_the_sample_and_the_validation_rows_do_not_depend_on_the_layout(tmp_path: Path) -> None:
    rows, share = table(40_000), 0.2
    first, *others = (
        surveyed(source, sample_rows=300, share=share)
        for source in (
            opened(files(tmp_path / "a", rows, [40_000], 40_000)),
            opened(files(tmp_path / "b", rows, [1, 20_000, 19_999], 777)),
            BatchRows(in_batches(rows, 16_000)),
            BatchRows(in_batches(rows, 17)),
        )
    )
    assert len(first.sample["y"]) == 300
    assert first.sample["y"].tolist() == sorted(first.sample["y"].tolist())
    for survey in others:
        assert same(survey.sample, first.sample)
        assert same(survey.validation, first.validation)
        torch.testing.assert_close(survey.x.mean, first.x.mean, rtol=1e-12, atol=0.0)
        torch.testing.assert_close(survey.x.std, first.x.std, rtol=1e-12, atol=0.0)
    # Rows of the sample are spread over the data, and none is for validation.
    assert not set(first.sample["y"].tolist()) & set(first.validation["y"].tolist())
    assert np.histogram(first.sample["y"], 4, (0, 40_000))[0].min() > 45
    spread = (share * (1.0 - share) * 40_000) ** 0.5
    assert abs(len(first.validation["y"]) - share * 40_000) <= 4.0 * spread


def test_data_that_does_not_fit_is_refused() -> None:
    rows = BatchRows(in_batches(table(100_000), 1000), memory=1 << 20)  # of 24 bytes each
    with pytest.raises(ValueError, match=r"validation=0.2 keeps more rows than fit into a quarter"):
        surveyed(rows)
    with pytest.raises(ValueError, match="data has no rows to train on"):
        surveyed(BatchRows([]))
    with pytest.raises(ValueError, match=r"data has no rows to train on, got 0.999 of 2 for valid"):
        surveyed(BatchRows(in_batches(table(2), 2)), share=0.999)
