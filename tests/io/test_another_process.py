"""Another process, with another number of threads, predicts the same bits."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import saved_estimators
import saved_models
import torch

import pyro_gcm

MODELS = ("continuous", "flow prior", "implicit", "joint", "built members, binary")
ESTIMATORS = ("GCMClassifier", "IGCMClassifier")


def predicted(folder: Path, threads: int) -> dict[str, Any]:
    """What is computed with the models and estimators that were saved in a folder."""
    torch.set_num_threads(threads)
    found = {}
    for name in MODELS:
        _, rows = saved_models.model_and_rows(name)
        numbers = saved_models.computed(pyro_gcm.load(folder / name), rows)
        found[name] = {key: value.detach().numpy() for key, value in numbers.items()}
    for name in ESTIMATORS:
        found[name] = saved_estimators.computed(pyro_gcm.load(folder / name))
    return found


@pytest.mark.long(keep=0)
@pytest.mark.filterwarnings("ignore::UserWarning")  # values beyond the training rows
@pytest.mark.parametrize("threads", [1, 3])
def test_another_process_predicts_the_same_bits(threads: int, tmp_path: Path) -> None:
    for name in MODELS:
        pyro_gcm.save(saved_models.model_and_rows(name)[0], tmp_path / name)
    for name in ESTIMATORS:
        pyro_gcm.save(saved_estimators.fitted(name), tmp_path / name)
    wanted = predicted(tmp_path, torch.get_num_threads())
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(predicted, tmp_path, threads).result()
    for name, numbers in wanted.items():
        for key, values in numbers.items():
            np.testing.assert_array_equal(found[name][key], values, err_msg=f"{name}: {key}")
