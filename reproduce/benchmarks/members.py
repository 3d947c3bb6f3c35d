"""Time of a fit and of a prediction of members, beside LightGBM as the search tuned it.

    python -m reproduce.benchmarks.members

Members have their default settings; LightGBM has those that `reproduce search` chose for the data
set, with the number of trees that it found there. Both are fitted to all rows, in CPU time.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pyro_gcm import data, fit_members
from reproduce import tasks
from reproduce.arguments import a_path, positive_count
from reproduce.benchmarks.paired import paired, show
from reproduce.methods import Rows, rows_of
from reproduce.methods.spaces import SEARCHED
from reproduce.results import RESULTS
from reproduce.runs import Settings, read_results
from reproduce.searching.search import final_file, trials_file

MEMBERS, BOOSTING = "Members, default", "LightGBM"
#: Rows of a prediction.
COUNTS = (1, 1_000, 10_000)
#: Rows of a first fit, which fills caches before the clock starts.
WARM_UP_ROWS = 500
#: Trees where there are no results of the search, with the settings of its first trial.
TREES = 300


def tuned(folder: Path, name: str) -> tuple[Settings, int, str]:
    """Settings of LightGBM for a data set, its number of trees, and where they come from.

    They are those of the final fits of a search, or where it has none, of its best trial.
    """
    for file in (final_file(name), trials_file(name)):
        table = read_results(folder / file)
        rows = table[(table["dataset"] == name) & (table["method"] == BOOSTING)]
        if file == trials_file(name):
            rows = rows.sort_values("value").head(1)
        if len(rows):
            settings: Settings = json.loads(rows["settings"].iloc[0])
            for shared in ("folds", "rows"):
                settings.pop(shared, None)
            return settings, round(rows["epochs"].median()), file
    return dict(SEARCHED[BOOSTING].default), TREES, "no search"


def main() -> None:
    """Print the times of both and their ratios, for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", choices=list(tasks.TASKS))
    parser.add_argument("--rows", type=positive_count, help="of the data set; all by default")
    parser.add_argument("--repeats", type=positive_count, default=3, help="of a fit")
    parser.add_argument("--results", type=a_path, default=RESULTS, help="folder of the search")
    options = parser.parse_args()
    for name in options.datasets or ("adult", "diabetes"):
        settings, trees, source = tuned(options.results, name)
        dataset = tasks.load(name, "default")
        print(f"\n{name}: LightGBM with {trees} trees and {settings} ({source})")
        count = min(options.rows or len(dataset), len(dataset))
        compare(dataset, count, settings, trees, options.repeats)


def compare(dataset: data.Dataset, count: int, settings: Settings, trees: int, times: int) -> None:
    """Print the times of fits to the first rows of a data set, and of predictions of them."""
    models: dict[str, Any] = {}

    def members(rows: Rows) -> None:
        options: Any = {"response": rows.response, "device": "cpu", "progress": False}
        models[MEMBERS] = fit_members(rows.x, rows.r, rows.y, **options).model

    def boosting(rows: Rows) -> None:
        models[BOOSTING], _ = SEARCHED[BOOSTING].fit(rows, trees, settings, 0)

    def fits(size: int) -> dict[str, Callable[[], object]]:
        rows = rows_of(dataset, torch.arange(size))
        return {BOOSTING: partial(boosting, rows), MEMBERS: partial(members, rows)}

    paired(fits(min(count, WARM_UP_ROWS)), 1, warm_up=0)
    print(f"fit, {count} rows")
    show(paired(fits(count), times, warm_up=0), BOOSTING)
    for size in dict.fromkeys(min(size, count) for size in COUNTS):
        columns = dataset.x[:size], dataset.r[:size]
        calls = {side: partial(model.predict, *columns) for side, model in models.items()}
        print(f"predict, {size} rows")
        show(paired(calls, 5 * times), BOOSTING)


if __name__ == "__main__":
    main()
