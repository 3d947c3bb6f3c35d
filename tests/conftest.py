"""Shared by all tests: one thread a process, the same draws at every run, samples of long tests."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

# `--doctest-modules` would import every conftest.py a second time, under the same name.
collect_ignore_glob = ["*conftest.py"]

# Set before torch is imported, for the workers and for the programs that tests start.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

#: More workers than this cost more in imports than they save.
MOST_WORKERS = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that choose which of the tests marked ``long`` run."""
    group = parser.getgroup("long tests")
    group.addoption(
        "--long",
        choices=("sample", "half", "all"),
        default="sample",
        help="cases of the tests marked long: a seeded sample (default), that and half of the "
        "others, at least one of each test, or all",
    )
    group.addoption("--long-seed", type=int, default=0, help="seed of that sample (default: 0)")


def pytest_report_header(config: pytest.Config) -> str:
    """Which of the long tests run."""
    which = config.getoption("--long")
    if which == "all":
        return "long tests: all"
    return f"long tests: a {which}, seed {config.getoption('--long-seed')} (--long all runs all)"


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of the cases of every long test.

    ``@pytest.mark.long(keep=3)`` keeps 3 cases, by default one in ten. The sample depends on
    the seed and on the name of the test alone, so that all workers draw the same one. ``--long
    half`` adds half of the other cases, ``--long all`` or a test named on the command line
    (``file::test``) all of them. Those beyond the sample run without coverage, which takes a third
    of their time.
    """
    if any("::" in arg for arg in config.args):
        return
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long"):
            cases[item.nodeid.partition("[")[0]].append(item)
    which, dropped = config.getoption("--long"), set[pytest.Item]()
    for name, of_test in cases.items():
        marker = of_test[0].get_closest_marker("long")
        keep = marker.kwargs.get("keep", len(of_test) // 10) if marker else 0
        draw = random.Random(f"{config.getoption('--long-seed')} {name}")
        beyond = draw.sample(of_test, max(0, len(of_test) - keep))
        for item in beyond:
            item.add_marker("no_cover")  # of pytest-cov
        dropped.update(beyond[: {"sample": len(beyond), "half": len(beyond) // 2, "all": 0}[which]])
    config.hook.pytest_deselected(items=list(dropped))
    items[:] = [item for item in items if item not in dropped]


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Workers for ``-n auto``: one for each core, and none where only files are asked for."""
    if all(Path(arg.partition("::")[0]).is_file() for arg in config.args):
        return 0
    import joblib

    return min(int(joblib.cpu_count()), MOST_WORKERS)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """The same draws at every run and in any order of the tests, and an empty parameter store."""
    import pyro
    import torch

    with torch.random.fork_rng(), pyro.get_param_store().scope():
        torch.manual_seed(20250721)
        yield
