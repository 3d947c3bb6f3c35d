"""An exported predictor: the predictions of the model, and as monotone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyro.distributions as dist
import pytest
import torch
import zoo
from torch import Tensor, nn

from pyro_gcm import GCM, audit_monotonicity, fit_members
from pyro_gcm.distributions.race import MinimumGumbel
from pyro_gcm.estimators import GCMClassifier
from pyro_gcm.io.export import FORMATS, export
from pyro_gcm.models import MemberGCM
from pyro_gcm.models.members import MemberSettings

Predict = Callable[[Tensor, Tensor], Tensor]


@cache
def rows() -> zoo.Rows:
    found = zoo.rows(count=300)
    found.x[:, 1], found.x[:, 2] = (found.x[:, 1] > 40.0).double(), 4.0  # two values, and one
    return found


OPTIONS: dict[str, dict[str, Any]] = {
    "alternatives": {"alternatives": 2, "costs": 3, "cost_family": "logistic", "p0": "conditional"},
    "categorical": {"prior": "categorical", "cost_family": "laplace"},
    "float64": {"alternatives": 2, "revenue_map": "piecewise_linear"},
    "joint": {"prior": "standard"},
    "flow": {"prior": "flow"},
}


@cache
def trained(name: str) -> GCM:
    if name == "members":
        settings = MemberSettings(members=3, width=8, bins=4, epochs=3)
        options = {"early_stopping": False, "progress": False}
        return fit_members(*rows(), settings=settings, **options).model
    kind = MemberGCM if "members" in OPTIONS[name] else GCM
    dtype = torch.float64 if name == "float64" else torch.float32
    model: GCM = zoo.make(kind, dtype, **OPTIONS[name])
    zoo.quickly(model, rows(), objective="joint" if name == "joint" else None)
    return model


def loaded(path: Path) -> Predict:
    if path.suffix == ".pt2":
        with path.open("rb") as file:
            program: Predict = torch.export.load(file).module()
        return program
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [column.name for column in session.get_inputs()]

    def run(x: Tensor, r: Tensor) -> Tensor:
        columns = (x.numpy(), r.numpy())
        return torch.from_numpy(session.run(None, dict(zip(names, columns, strict=True)))[0])

    return run


def check(model: GCM, predict: Predict, error: float, apart: float = 0.0) -> None:
    """The numbers of the model, for a row alone and among others, and none that falls.

    :param apart: how far a row alone may be from itself among others: a runtime of ONNX may add
        the parts of a product in another order for another number of rows.
    """
    x, r, _ = rows()
    whole = predict(x, r)
    assert whole.dtype == torch.float64
    assert (whole - model.predict(x, r).double()).abs().max() < error
    for place in (0, 17, 31, 32, 299):
        alone = predict(x[place, None], r[place, None])
        assert (alone - whole[place, None]).abs().max() <= apart
    assert (predict(x[5:70], r[5:70]) - whole[5:70]).abs().max() <= apart
    options: Any = {
        "dtype": "float64", "pairs": 6_000, "searches": ("random", "grid"), "progress": False
    }  # fmt: skip
    options |= {"tolerance": apart} if apart else {}
    audit = audit_monotonicity(lambda a, b: predict(a.double(), b.double()), x, r, **options)
    assert audit.frame.violations.sum() == 0


ONNX = ("members", "alternatives", "categorical")


@pytest.mark.long(keep=("members-torch",))
@pytest.mark.parametrize(
    ("name", "format"),
    [*((name, "torch") for name in ("members", *OPTIONS)), *((name, "onnx") for name in ONNX)],
)
def test_an_exported_program_predicts_as_the_model(name: str, format: str, tmp_path: Path) -> None:
    if format == "onnx":
        pytest.importorskip("onnxscript")
    model, file = trained(name), tmp_path / "deep" / f"model{FORMATS[format]}"
    predict = loaded(export(model, file, format=format))
    apart = 1e-7 if format == "onnx" else 0.0
    check(model, predict, 1e-13 if name == "float64" else 1e-6, apart)
    assert list(file.parent.iterdir()) == [file]
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.long(keep=0)
def test_a_fixed_number_of_rows(tmp_path: Path) -> None:
    model, (x, r, _) = trained("flow"), rows()
    program = loaded(export(model, tmp_path / "model.pt2", batch=48))
    assert torch.allclose(program(x[:48], r[:48]), model.predict(x[:48], r[:48]).double())
    with pytest.raises(Exception, match="48"):
        program(x[:47], r[:47])
    again = loaded(export(model, tmp_path / "other.pt2"))  # which is not held to three blocks
    assert torch.allclose(again(x, r), model.predict(x, r).double())


class Shares(nn.Module):
    """A prior that no base noise drives."""

    def forward(self, x: Tensor) -> Any:
        return dist.Dirichlet(x.new_ones(len(x), 4))


@pytest.mark.filterwarnings("ignore:Dirichlet has neither")
def test_what_has_no_program_is_refused_by_name(tmp_path: Path) -> None:
    model, logistic = GCM(3, 2), GCM(3, 2, cost_family="logistic").double()
    continuous, seeded = GCM(3, 2, response="continuous"), GCM(3, 2, prior=Shares())
    gumbel = GCM(3, 2, cost_family=MinimumGumbel)
    for fitted in (model, logistic, continuous, seeded, gumbel):
        fitted.objective = "conditional"
    onnx, torch_file = tmp_path / "model.onnx", tmp_path / "model.pt2"
    for path in (onnx, torch_file):
        path.write_text("kept")
    refusals: list[tuple[Any, Path, dict[str, Any], str]] = [
        (GCM(3, 2), torch_file, {}, r"model has not been fitted"),
        (continuous, torch_file, {}, r"response 'continuous'.*'binary', 'ordinal', 'survival'"),
        (seeded, torch_file, {}, "model draws Dirichlet by seeded noise"),
        (gumbel, onnx, {"format": "onnx"}, r"cost_family.*Gumbel.*Normal, Logistic.*'torch'"),
        (model, torch_file, {"times": [1.0]}, "times must be.* got .1.0. for response 'binary'"),
        (GCMClassifier(), onnx, {"format": "onnx"}, "must be a fitted estimator or a model"),
        (logistic, onnx, {"format": "onnx"}, r"float64.*float32"),
        (model, torch_file, {"format": "pickle"}, r"format must be one of"),
        (model, torch_file, {"batch": 0}, r"batch must be an integer of at least 1"),
        (model, onnx, {}, r"path must end in \.pt2 .*, got .*model\.onnx"),
    ]
    for refused, path, options, message in refusals:
        with pytest.raises((TypeError, ValueError), match=message):
            export(refused, path, **options)
        assert path.read_text() == "kept"
