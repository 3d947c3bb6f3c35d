"""Training and prediction on Parquet files that do not fit into memory.

    python -m reproduce.benchmarks.streaming --folder /a/disk/with/room

It writes the rows (10^8 of 20 columns are about 8 GB), trains a small GCM for one epoch through
`fit(data=...)`, and predicts. Each of both runs in a process of its own, whose largest resident
memory is printed beside the rows a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyro_gcm import GCM, fit, load, save
from pyro_gcm.training import FitSettings
from reproduce.arguments import a_path, positive_count

X_DIM, R_DIM, FILE_ROWS = 17, 2, 1_000_000
NAMES: dict[str, Any] = {
    "x": [f"x{i}" for i in range(X_DIM)],
    "r": [f"r{i}" for i in range(R_DIM)],
    "y": "y",
}
#: Of the training, whose steps are made as cheap as they can be.
OPTIONS: dict[str, Any] = {
    "epochs": 1,
    "batch_size": 4096,
    "num_particles": 4,
    "settings": FitSettings(particles="qmc"),
}


def write(folder: Path, rows: int) -> None:
    """Files of a million rows each; those that are there already are kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    names = [*NAMES["x"], *NAMES["r"], "y"]
    for number, first in enumerate(range(0, rows, FILE_ROWS)):
        path = folder / f"{number:04d}.parquet"
        if path.exists():
            continue
        generator = np.random.default_rng(number)
        count = min(FILE_ROWS, rows - first)
        columns = [generator.standard_normal(count, dtype=np.float32) for _ in NAMES["x"]]
        columns += [generator.random(count, dtype=np.float32) for _ in NAMES["r"]]
        score = columns[0] * columns[1] + 4.0 * np.maximum(columns[-1], columns[-2]) - 2.5
        columns.append((generator.logistic(size=count) < score).astype(np.float32))
        part = path.with_suffix(".part")
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), part, compression="none")
        part.rename(path)


def dataset(folder: Path) -> Any:
    """The files as one set of rows."""
    import pyarrow.dataset as ds

    return ds.dataset(folder, format="parquet")


def train(folder: Path, model_folder: Path) -> None:
    """The process that trains."""
    model = GCM(X_DIM, R_DIM, seed=0)
    marks: dict[int, float] = {}

    def note(step: int) -> None:
        marks.setdefault(step, time.perf_counter())

    result = fit(
        model,
        **NAMES,
        data=dataset(folder),
        **OPTIONS,
        device="cpu",
        seed=0,
        progress=False,
        callback=note,
    )
    save(model, model_folder)
    told = {"loss": result.rows[-1]["loss"], "seconds": 0.0}
    told["seconds"] = marks[max(marks)] - marks[min(marks)]
    told["rows"] = (max(marks) - min(marks)) * OPTIONS["batch_size"]
    print(json.dumps(told))


def score(folder: Path, model_folder: Path, rows: int) -> None:
    """The process that predicts."""
    model = load(model_folder)
    names = [*NAMES["x"], *NAMES["r"]]
    done, total, start = 0, 0.0, time.perf_counter()
    for path in sorted(folder.glob("*.parquet")):
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches(16_384, columns=names):
            columns = torch.from_numpy(np.column_stack([c.to_numpy() for c in batch.columns]))
            total += float(model.predict(columns[:, :X_DIM], columns[:, X_DIM:]).sum())
            done += len(columns)
        if done >= rows:
            break
    print(json.dumps({"mean": total / done, "rows": done, "seconds": time.perf_counter() - start}))


def child(*arguments: str) -> dict[str, Any]:
    """What a process of this script tells."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "reproduce.benchmarks.streaming", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(said)
    line, peak = said.strip().splitlines()[-2:]
    return {**json.loads(line), "peak": int(peak), "all": time.perf_counter() - start}


def peak_memory() -> int:
    """Largest resident memory of this process in bytes, without that of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def show(what: str, told: dict[str, Any], rows: int) -> None:
    """One line of the result."""
    print(
        f"{what}: {rows:,} rows, {rows / told['seconds']:,.0f} rows a second; "
        f"{told['all']:.0f} s in all; peak resident memory {told['peak'] / 1e6:.0f} MB",
        flush=True,
    )


def main() -> None:
    """Write, train, predict."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.benchmarks.streaming")
    parser.add_argument("--rows", type=positive_count, default=10**8)
    parser.add_argument("--score-rows", type=positive_count, help="all by default")
    parser.add_argument("--folder", type=a_path, help="of the files, which are kept there")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        part, *paths = arguments.child
        if part == "train":
            train(*map(Path, paths))
        else:
            score(Path(paths[0]), Path(paths[1]), int(paths[2]))
        print(peak_memory())
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch) / "rows"
        start = time.perf_counter()
        write(folder, arguments.rows)
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        print(f"{size / 1e9:.2f} GB written in {time.perf_counter() - start:.0f} s", flush=True)
        trained = str(Path(scratch) / "model")
        whole = child("--child", "train", str(folder), trained)
        show("fit, one epoch after one survey", whole, whole["rows"])
        rows = str(arguments.score_rows or arguments.rows)
        predicted = child("--child", "score", str(folder), trained, rows)
        show("predict", predicted, predicted["rows"])


if __name__ == "__main__":
    main()
