"""What rows, columns and members cost, and what that says of larger tables.

    python -m reproduce.benchmarks.scale

CPU time of one thread is measured for members on tables of several sizes: of an epoch of `fit`, of
`predict`, and of reading Parquet. A linear model of it,

    seconds of a row = a + b K + c d + e K d,      K members, d columns,

is fitted to those sizes, and held against a size that it has not seen, with more rows. Then it is
printed for tables up to 10^10 rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_gcm import fit
from pyro_gcm.members import build_members
from pyro_gcm.models.member_settings import MemberSettings
from pyro_gcm.streams import ShuffledRows, open_source, survey
from pyro_gcm.training import gathered
from reproduce.arguments import positive_count

#: Columns of x and r together, and members, of the tables that the model is fitted to.
SIZES = ((6, 2), (6, 8), (6, 16), (18, 4), (18, 12), (50, 2), (50, 8), (50, 16))
#: The size that it is held against, and its rows beside those of the others.
UNSEEN, MORE_ROWS = (30, 10), 3
R_DIM, BATCH, WIDTH = 2, 2048, 32


def table(rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (x, r, y)."""
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(rows, columns - R_DIM, generator=g), torch.rand(rows, R_DIM, generator=g)
    return x, r, (torch.rand(rows, generator=g) < torch.sigmoid(x[:, 0] + 3 * r[:, 0] - 1)).float()


def seconds(rows: int, columns: int, members: int) -> tuple[float, float]:
    """CPU seconds of a row in an epoch of training and in a prediction: the least of two."""
    data = table(rows, columns)
    settings = MemberSettings(members=members, width=WIDTH, dropout=0.0, epochs=1, batch_size=BATCH)
    training, predicting = [], []
    for _ in range(2):
        model = build_members(settings, columns - R_DIM, R_DIM)
        ends: list[float] = []
        options: dict[str, Any] = settings.training(model)._asdict()
        options["callback"] = partial(_note, ends)
        fit(model, *data, **gathered(options), device="cpu", progress=False)
        # The first step is made by both engines.
        training.append((ends[-1] - ends[1]) / (rows - BATCH))
        start = time.process_time()
        model.predict(data[0][: rows // 2], data[1][: rows // 2])
        predicting.append((time.process_time() - start) / (rows // 2))
    return min(training), min(predicting)


def _note(ends: list[float], step: int) -> None:
    ends.append(time.process_time())


def terms(columns: int, members: int) -> list[float]:
    """What the constants of the model multiply."""
    return [1.0, members, columns, members * columns]


def fitted(costs: Sequence[float]) -> np.ndarray:
    """The constants a, b, c and e that fit the costs of `SIZES` best, relative to their size."""
    weight = 1.0 / np.asarray(costs)
    design = np.array([terms(*size) for size in SIZES]) * weight[:, None]
    constants: np.ndarray = np.linalg.lstsq(design, np.ones(len(SIZES)), rcond=None)[0]
    return constants


def reading(columns: int, rows: int = 1_000_000) -> float:
    """CPU seconds of a row that is read from Parquet and shuffled."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        generator = np.random.default_rng(0)
        names = [f"c{i}" for i in range(columns + 1)]
        columns_of = {name: generator.random(rows, dtype=np.float32) for name in names}
        pq.write_table(pa.table(columns_of), Path(folder) / "0.parquet", compression="none")
        source = open_source(
            ds.dataset(folder), names[: columns - R_DIM], names[columns - R_DIM : -1], names[-1]
        )
        options: dict[str, Any] = {
            "seed": 0,
            "batch_size": BATCH,
            "buffer_rows": 200_000,
            "share": 0.0,
        }
        found = survey(
            source,
            seed=0,
            share=0.0,
            sample_rows=1,
            most_bytes=1,
            check=lambda block, first: None,
            progress=False,
        )
        shuffled = ShuffledRows(source, rows, checksums=found.checksums, **options)
        times = []
        for epoch in range(2):
            start = time.process_time()
            for _ in shuffled.epoch(epoch):
                pass
            times.append(time.process_time() - start)
    return min(times) / rows


def hours(n: float, row: float) -> str:
    """CPU hours of n rows in words."""
    return f"{n * row / 3600.0:,.2g}"


def main() -> None:
    """Measure, fit, hold against, and print."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.benchmarks.scale")
    parser.add_argument("--rows", type=positive_count, default=60_000)
    arguments = parser.parse_args()
    training, predicting = [], []
    print("columns  members  fit, us a row  predict, us a row")
    for columns, members in SIZES:
        train, predict = seconds(arguments.rows, columns, members)
        training.append(train)
        predicting.append(predict)
        print(f"{columns:7d} {members:8d} {1e6 * train:14.2f} {1e6 * predict:18.2f}", flush=True)
    measured = seconds(MORE_ROWS * arguments.rows, *UNSEEN)
    for name, costs, found in zip(
        ("fit", "predict"), (training, predicting), measured, strict=True
    ):
        a, b, c, e = constants = fitted(costs)
        guess = float(constants @ terms(*UNSEEN))
        print(
            f"{name}: {1e6 * a:.2f} + {1e6 * b:.2f} K + {1e6 * c:.3f} d + {1e6 * e:.4f} K d us a "
            f"row; for {MORE_ROWS * arguments.rows:,} rows of {UNSEEN[0]} columns and {UNSEEN[1]} "
            f"members {1e6 * guess:.1f}, measured {1e6 * found:.1f}: {guess / found - 1.0:+.0%}"
        )
    rates = {columns: reading(columns) for columns in (10, 40)}
    slope = (rates[40] - rates[10]) / 30
    print(f"read: {1e6 * (rates[10] - 10 * slope):.3f} + {1e6 * slope:.4f} d us a row")
    unseen = reading(20)
    guess = rates[10] + 10 * slope
    error = f"{guess / unseen - 1.0:+.0%}"
    print(f"  for 20 columns {1e6 * guess:.3f}, measured {1e6 * unseen:.3f}: {error}")
    train, predict = (float(fitted(costs) @ terms(20, 8)) for costs in (training, predicting))
    print(
        "20 columns, 8 members: rows, float32 GB, CPU hours of an epoch, of a prediction, of a read"
    )
    for power in range(6, 11):
        n = 10.0**power
        print(
            f"  10^{power}: {n * 21 * 4 / 1e9:,.1f} GB, {hours(n, train)}, {hours(n, predict)}, "
            f"{hours(n, unseen)}"
        )


if __name__ == "__main__":
    main()
