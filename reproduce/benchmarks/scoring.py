"""Rows a second of a scorer on the engines that are installed, and whether they give the same bits.

    python -m reproduce.benchmarks.scoring

The reference is one call on the whole table in this process, as polars makes one. The other engines
have two workers, which start before the clock does, but for Dask, Ray and Spark load the model
within the time. Ray and Spark are installed separately.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pyro_gcm.estimators import GCMClassifier, Scorer
from reproduce.arguments import positive_count

#: Rows of a batch.
BATCH = 20_000
WORKERS = 2
#: A call of an engine: the whole table to the results of all its rows.
Call = Callable[[], pd.DataFrame]


def loans(rows: int, seed: int) -> pd.DataFrame:
    """Columns of numbers and text, with missing values and rare levels."""
    noise = np.random.default_rng(seed)
    jobs = ["clerk", "smith", "baker", "queen"]
    X = pd.DataFrame(
        {
            "income": noise.lognormal(10, 1, rows),
            "debt": noise.uniform(0, 50, rows),
            "job": noise.choice(jobs, rows, p=[0.4, 0.3, 0.299, 0.001]),
            "kids": noise.integers(0, 4, rows),
        }
    )
    X.loc[noise.random(rows) < 0.1, "income"] = np.nan
    X.loc[noise.random(rows) < 0.05, "job"] = None
    return X.assign(id=np.arange(rows))


def fitted_loans(rows: int) -> GCMClassifier:
    """A classifier that was fitted to other rows, none of them with the job "queen"."""
    X = loans(rows, seed=0)
    X["job"] = X["job"].replace("queen", "baker")
    noise = np.random.default_rng(2).logistic(size=rows)
    late = 0.1 * X["debt"] - np.log(X["income"].fillna(22_000.0)) + 7 + noise > 0
    model = GCMClassifier(monotonic_cst={"income": -1, "debt": 1}, epochs=5)
    return model.fit(X.drop(columns="id"), late)


@contextmanager
def one_call(score: Scorer, table: pa.Table, jobs: int) -> Iterator[Call]:
    """All rows in one call."""
    yield lambda: score(table).to_pandas()


@contextmanager
def pool(score: Scorer, table: pa.Table, jobs: int) -> Iterator[Call]:
    """A pool of processes."""
    batches = table.to_batches(max_chunksize=BATCH)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as workers:
        list(workers.map(score, [batch.slice(0, 1) for batch in batches[:jobs]]))
        yield lambda: pa.Table.from_batches(list(workers.map(score, batches))).to_pandas()


@contextmanager
def polars(score: Scorer, table: pa.Table, jobs: int) -> Iterator[Call]:
    """A lazy frame of polars, which calls once."""
    import polars as pl

    kinds = {"id": pl.Int64, "probability": pl.Float64, "class": pl.Boolean}
    frame = pl.DataFrame(table)
    yield lambda: frame.lazy().map_batches(score, schema=kinds).collect().to_pandas()


@contextmanager
def dask(score: Scorer, table: pa.Table, jobs: int) -> Iterator[Call]:
    """Partitions of a data frame of Dask."""
    import dask.dataframe as dd
    from distributed import Client

    frame = dd.from_pandas(table.to_pandas(), chunksize=BATCH)
    with Client(n_workers=jobs, threads_per_worker=1, dashboard_address=None):
        yield lambda: frame.map_partitions(score).compute()


@contextmanager
def ray(score: Scorer, table: pa.Table, jobs: int) -> Iterator[Call]:
    """Batches of a data set of Ray."""
    import ray

    ray.init(num_cpus=jobs, include_dashboard=False, logging_level="ERROR")
    rows = ray.data.from_arrow(table).repartition(max(jobs, len(table) // BATCH))
    try:
        yield lambda: rows.map_batches(score, batch_format="pyarrow", batch_size=BATCH).to_pandas()
    finally:
        ray.shutdown()


@contextmanager
def spark(score: Scorer, table: pa.Table, jobs: int) -> Iterator[Call]:
    """Partitions of a data frame of Spark, as Arrow batches."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{jobs}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, Path(folder) / "rows.parquet")
        rows = session.read.parquet(folder).repartition(max(jobs, len(table) // BATCH))
        try:
            yield lambda: rows.mapInArrow(score.batches, "id bigint, " + score.ddl).toPandas()
        finally:
            session.stop()


#: The first is what the others are compared with.
ENGINES = {"one call": one_call, "pool": pool, "polars": polars, "dask": dask, "ray": ray,
           "spark": spark}  # fmt: skip


def measured(call: Call) -> tuple[pd.DataFrame, float]:
    """The results by id, and the seconds on the wall that they took."""
    start = time.perf_counter()
    found = call()
    seconds = time.perf_counter() - start
    return found.set_index("id").sort_index(), seconds


def equal(found: pd.DataFrame, reference: pd.DataFrame) -> bool:
    """Whether every value is the same, to the last bit."""
    return list(found) == list(reference) and all(
        np.array_equal(found[name].to_numpy(), reference[name].to_numpy()) for name in reference
    )


def main() -> None:
    """Print rows a second of every engine, beside one call, and whether the bits are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=positive_count, default=1_000_000)
    parser.add_argument("--jobs", type=positive_count, default=WORKERS)
    parser.add_argument("--engines", nargs="+", choices=[*ENGINES][1:], default=[*ENGINES][1:])
    arguments = parser.parse_args()
    score = fitted_loans(2_000).scorer(keep=["id"])
    table = pa.Table.from_pandas(loans(arguments.rows, seed=1), preserve_index=False)
    with one_call(score, table, 1) as call:
        reference, alone = measured(call)
    print(f"{'one call':10s} {arguments.rows / alone:12,.0f} rows/s")
    for name in arguments.engines:
        try:
            with ENGINES[name](score, table, arguments.jobs) as call:
                found, seconds = measured(call)
        except ImportError as error:
            print(f"{name:10s} not installed: {error.name}")
            continue
        same = "the same bits" if equal(found, reference) else "OTHER VALUES"
        speed = f"{arguments.rows / seconds:12,.0f} rows/s   {alone / seconds:6.3f} x one call"
        print(f"{name:10s} {speed}   {same}", flush=True)


if __name__ == "__main__":
    main()
