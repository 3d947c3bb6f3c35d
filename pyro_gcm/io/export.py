"""The predictor of a trained model as a program that runs without this library."""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from pyro_gcm._utils.files import check_writable, usable, write_file
from pyro_gcm._utils.torch_state import evaluating, exclusively
from pyro_gcm._utils.validation import kind, one_of, positive_int
from pyro_gcm.distributions.families import BUILT_IN
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.nets.networks import block_rows
from pyro_gcm.prediction.predicted import Predicted
from pyro_gcm.responses import Binary

#: Formats, and how their files end.
FORMATS = {"torch": ".pt2", "onnx": ".onnx"}


def export(
    model: OrderEventModel, path: str | Path, *, format: str = "torch", batch: int | None = None
) -> Path:
    """Write `predict(x, r)` of a trained model with a binary response to one file.

    The file takes x [B, x_dim] and r [B, r_dim] in float64, in the units of the data, and returns
    Pr(y = 1), [B], in float64. It contains a copy of the weights, and needs torch or an ONNX
    runtime to run, not this library; it checks nothing, so that a NaN gives NaN.

    What is promised: the program computes block after block of rows as `predict` does. So the
    prediction of a `GCM` does not fall in r, within a call and between calls, as far as the runtime
    computes equal blocks equally on one machine, which `audit_monotonicity` measures, since it
    takes any function. Predictions agree with those of `predict` to rounding, for weights in
    float32 to about 1e-6 on rows like those of training and 1e-5 far outside of them, for weights
    in float64 to 1e-13. Between machines, runtimes and numbers of threads no order is promised,
    only that agreement.

    :param model: fitted, with response "binary", and for "onnx" with weights in float32 and
        logistic costs, as members have, or Laplace.
    :param path: of the file, which ends in .pt2 or .onnx; an existing one is replaced once the new
        one is whole.
    :param format: "torch", a program of `torch.export`, for `torch.export.load`; or "onnx", for
        which the extra `onnx` has to be installed.
    :param batch: number of rows B of the program, for runtimes that need one; any by default.
    :returns: the path.
    :raises ValueError: for other models. Of a module of its own with choices that depend on values
        `torch.export` can make no program, and raises errors of its own.
    :raises OSError: if the file cannot be written; one that was there is then unchanged.

    >>> import tempfile
    >>> from pyro_gcm import GCM
    >>> model = GCM(2, 1)
    >>> model.objective = "conditional"  # as `fit` does
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     program = torch.export.load(export(model, f"{folder}/gcm.pt2"))
    >>> x, r = torch.zeros(3, 2, dtype=torch.float64), torch.ones(3, 1, dtype=torch.float64)
    >>> torch.allclose(program.module()(x, r), model.predict(x, r).double(), atol=1e-6)
    True
    """
    one_of("format", format, list(FORMATS))
    rows = None if batch is None else positive_int("batch", batch)
    _check(model, format)
    path = usable(path)
    check_writable(path)
    if path.suffix != FORMATS[format]:
        raise ValueError(f"path must end in {FORMATS[format]} for {format=}, got {path.name}")
    model = copy.deepcopy(model).requires_grad_(False)
    with exclusively, torch.no_grad(), evaluating(model), pyro.validation_enabled(False):
        program, inputs = _program(model, rows)
        content = _bytes_of(program, inputs, format)
    write_file(path, content)
    return path


def _check(model: Any, format: str) -> None:
    """Raise ValueError for a model that has no program."""
    if not model.is_trained:
        raise ValueError("model has not been fitted, got one with its initial weights")
    if type(model.response) is not Binary:
        raise ValueError(
            f"model has response {model.response.named!r}: export takes 'binary', "
            "since the others invert the normal distribution, which has no form that keeps order"
        )
    if seeded := model.noise(None).seeded:
        raise ValueError(f"model draws {seeded} by seeded noise for one row after the other")
    family: Any = getattr(model.cost_net, "family", None)
    known = [cls for cls, (_, standard) in BUILT_IN.items() if standard.in_onnx]
    if format == "onnx" and (family not in known or model.dtype != torch.float32):
        name = getattr(family, "__name__", kind(model.cost_net))
        raise ValueError(
            f"cost_family of the model is {name}, and its weights are {model.dtype}: {format=} "
            f"takes {', '.join(cls.__name__ for cls in known)} and torch.float32 (model.float()), "
            "format='torch' the others"
        )


def _program(model: OrderEventModel, batch: int | None) -> tuple[Any, tuple[Tensor, Tensor]]:
    """The program, and inputs that it takes."""
    block = block_rows(model.device)
    rows = 3 * block + 5 if batch is None else batch
    like: Any = {"dtype": torch.float64, "device": model.device}
    x, r = torch.zeros(rows, model.x_dim, **like), torch.zeros(rows, model.r_dim, **like)
    predictor: Any = model
    predictor.predict(x, r)  # after which parts have what they keep
    some = torch.zeros(block, model.x_dim, **like), torch.zeros(block, model.r_dim, **like)
    traced = torch.export.export(_Block(model), some, strict=False)
    whole = traced.module(check_guards=False)
    whole.graph.eliminate_dead_code()
    whole.recompile()
    for name, value in traced.constants.items():  # which the outer trace takes as buffers alone
        owner, _, leaf = name.rpartition(".")
        delattr(whole.get_submodule(owner), leaf)
        whole.get_submodule(owner).register_buffer(leaf, value.contiguous())
    whole = torch.fx.GraphModule(whole, whole.graph)  # without tensors that nothing reads
    any_number = None if batch else ({0: torch.export.Dim("rows", min=1)},) * 2
    blocks = _Blocks(whole, block)
    torch.compiler.reset()  # torch keeps the loop of a program before, and its number of blocks
    return torch.export.export(blocks, (x, r), dynamic_shapes=any_number, strict=False), (x, r)


class _Block(nn.Module):
    """Predictions of one block of rows."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.plan, self.noise = model, model.prediction_plan, model.noise(None)

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1), [b]."""
        draws = Predicted(self.model, self.plan, self.noise).read(x, r)
        return draws.mean(self.model.response.predict(draws.p_y)).double()


class _Blocks(nn.Module):
    """A function of blocks of rows, one after the other."""

    def __init__(self, function: nn.Module, block: int) -> None:
        super().__init__()
        self.function, self.block = function, block

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1), [B], for x [B, x_dim] and r [B, r_dim] in the units of the data."""
        rows, block, device = x.shape[0], self.block, x.device
        # One block more than needed: torch takes a program for one to be another one.
        blocks = torch.arange((rows + 2 * block - 1) // block, device=device)
        place = (blocks[:, None] * block + torch.arange(block, device=device)).clamp(max=rows - 1)

        def step(nothing: Tensor, columns: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            return nothing.clone(), self.function(*columns)

        _, p = scan(step, torch.zeros(1, device=device), (x[place], r[place]))
        row = torch.arange(rows, device=device)
        return p[row // block, row % block]


def _bytes_of(program: Any, inputs: tuple[Tensor, ...], format: str) -> bytes:
    if format == "torch":
        file = io.BytesIO()
        torch.export.save(program, file)
        return file.getvalue()
    with warnings.catch_warnings():  # of torch about itself
        warnings.simplefilter("ignore")
        made = torch.onnx.export(program, inputs, dynamo=True, verbose=False)
    assert made is not None
    content: bytes = made.model_proto.SerializeToString()
    return content
