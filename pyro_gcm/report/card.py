"""The model card: what the model is, how it was trained, with which versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyro_gcm.report.content import Block, Paragraph, Section, Table
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount

_NAMES = {
    "auc": "AUC",
    "log_score": "log score",
    "r2": "R²",
    "rmse": "RMSE",
    "rows": "training rows",
    "test_rows": "rows held out at training",
}


def card(subject: Subject, saved: Mapping[str, Any] | None, folder: str | None) -> Section:
    """The section on the model.

    :param saved: the card of the folder, as `io.read_card` returns it, if it was saved.
    :param folder: name of the folder.
    """
    estimator = subject.estimator
    about = [["kind", subject.kind], ["class", type(estimator).__name__]]
    if folder:
        about.append(["folder", folder])
    if "rows" in estimator.training_:
        about.append(["training rows", f"{estimator.training_['rows']:,}"])
    about.append(["epochs (passes over the training rows)", f"{estimator.n_iter_:,}"])
    if "loss" in estimator.training_:
        about.append(["loss a row in the last epoch", amount(estimator.training_["loss"])])
    settings = [
        [name, str(value)]
        for name, value in sorted(estimator.get_params(deep=False).items())
        if name not in ("monotonic_cst", "verbose")
    ]
    blocks: list[Block] = [
        Paragraph("What the model is and how it was made, for those who check it."),
        Table("The model", ["What", "Value"], about),
    ]
    if saved is not None:
        known = {name for name, _ in about}
        noted = [[name, text] for name, text in _noted(saved["metrics"]) if name not in known]
        if noted:
            blocks.append(Table("Noted when it was saved", ["What", "Value"], noted))
    title = "Settings; None is a value that follows from the table"
    blocks.append(Table(title, ["Setting", "Value"], settings))
    if saved is not None:
        versions = [[str(name), str(text)] for name, text in saved["versions"].items()]
        blocks.append(Table("Versions when it was saved", ["Program", "Version"], versions))
    return Section("card", "Model card", blocks)


def _noted(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of all numbers, texts and short lists, at any depth."""
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _noted(value)
        elif isinstance(value, list) and not any(isinstance(v, list | dict) for v in value):
            yield _NAMES.get(key, key), ", ".join(map(str, value))
        elif isinstance(value, float):
            yield _NAMES.get(key, key), f"{value:.6g}"
        elif not isinstance(value, list) and value is not None:
            yield _NAMES.get(key, key), str(value)
