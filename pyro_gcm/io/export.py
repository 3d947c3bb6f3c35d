"""The predictor of a trained model, or estimator, as a program that runs without this library."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.fx.node import map_arg

from pyro_gcm._utils.files import check_writable, usable, write_file
from pyro_gcm._utils.torch_state import evaluating, exclusively
from pyro_gcm._utils.validation import ArrayLike, kind, one_of, positive_int, vector
from pyro_gcm.distributions.families import BUILT_IN
from pyro_gcm.io.onnx_file import DECOMPOSITIONS, check_columns, inputs_of, onnx_bytes
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.nets.networks import block_rows
from pyro_gcm.prediction.predicted import Predicted
from pyro_gcm.responses import Binary, Ordinal, Survival

#: Formats, and how their files end.
FORMATS = {"torch": ".pt2", "onnx": ".onnx"}
#: Responses whose predictions are sums and products that every runtime has.
_TAKEN = (Binary, Ordinal, Survival)


def export(
    model_or_estimator: Any,
    path: str | Path,
    *,
    format: str = "torch",
    batch: int | None = None,
    times: ArrayLike | None = None,
) -> Path:
    """Write the predictor of a trained model, or the whole of an estimator, to one file.

    Of a model the file takes x [B, x_dim] and r [B, r_dim] in float64, in the units of the data. Of
    an estimator, which "onnx" has, it takes the columns of a table under their names, each [B]:
    numbers as float64, NaN where one is missing, and text as strings, "" where it is missing. It
    reads them as the estimator does, which it is traced from; the metadata of the file name the
    event, the classes or times, and each column with its direction.

    Outputs are in float64: "prediction" [B], Pr(y = 1), the mean level, or Pr(T <= horizon); of
    levels their "probabilities" [B, L]; with `times` "survival" [B, T]. A program of torch returns
    the first as it is, if it is the only one, and else all by name. The file contains a copy of the
    weights, and needs torch or an ONNX runtime to run, not this library; it checks nothing.

    What is promised: the program computes block after block of rows as `predict` does. So the
    prediction of a `GCM` does not fall in r, within a call and between calls, as far as the runtime
    computes equal blocks equally on one machine, which `audit_monotonicity` measures, since it
    takes any function, and `audit_table` of a file of an estimator. Predictions agree with those of
    `predict` to rounding, for weights in float32 to about 1e-6 on rows like those of training and
    1e-5 far outside of them, for weights in float64 to 1e-13. Between machines, runtimes and
    numbers of threads no order is promised, only that agreement.

    :param model_or_estimator: fitted, with response "binary", "ordinal" or "survival", and for
        "onnx" with weights in float32 and normal, logistic or Laplace costs.
    :param path: of the file, which ends in .pt2 or .onnx; an existing one is replaced once the new
        one is whole.
    :param format: "torch", a program of `torch.export`, for `torch.export.load`; or "onnx", for
        which the extra `onnx` has to be installed.
    :param batch: number of rows B of the program, for runtimes that need one; any by default.
    :param times: at least 0, in the units of y, [T]: where survival functions are written.
    :returns: the path.
    :raises ValueError: for others, by name. Of a module of its own with choices that depend on
        values `torch.export` can make no program, and raises errors of its own.
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
    is_model = isinstance(model_or_estimator, OrderEventModel)
    estimator = None if is_model else model_or_estimator
    model = model_or_estimator if is_model else getattr(estimator, "model_", None)
    if model is None:
        name = kind(estimator)
        raise ValueError(f"model_or_estimator must be a fitted estimator or a model, got {name}")
    _check(model, format)
    at = None if times is None else vector("times", times).double()
    if at is not None and (type(model.response) is not Survival or (at < 0.0).any()):
        raise ValueError(
            "times must be at least 0, of a model of times, got "
            f"{at.tolist()} for response {model.response.named!r}"
        )
    if estimator is not None:
        if format != "onnx":
            raise ValueError(
                f"format must be 'onnx' for an estimator, whose columns may be text, got {format!r}"
            )
        check_columns(estimator)
    path = usable(path)
    check_writable(path)
    if path.suffix != FORMATS[format]:
        raise ValueError(f"path must end in {FORMATS[format]} for {format=}, got {path.name}")
    model = copy.deepcopy(model).requires_grad_(False)
    with warnings.catch_warnings(), evaluating(model), pyro.validation_enabled(False):
        warnings.simplefilter("ignore")  # of torch about itself
        with exclusively, torch.no_grad():
            program, inputs = _program(model, estimator, rows, at, format)
        if format == "onnx":
            content = onnx_bytes(program, inputs, model.response, estimator, at)
        else:
            file = io.BytesIO()
            torch.export.save(program, file)
            content = file.getvalue()
    write_file(path, content)
    return path


def _check(model: Any, format: str) -> None:
    """Raise ValueError for a model that has no program."""
    if not model.is_trained:
        raise ValueError("model has not been fitted, got one with its initial weights")
    if type(model.response) not in _TAKEN:
        names = ", ".join(repr(response.named) for response in _TAKEN)
        raise ValueError(
            f"model has response {model.response.named!r}: export takes {names}, since the others "
            "need functions that have no form which keeps order in other runtimes (docs/saving.md)"
        )
    if seeded := model.noise(None).seeded:
        raise ValueError(f"model draws {seeded} by seeded noise for one row after the other")
    family: Any = getattr(model.cost_net, "family", None)
    if format == "onnx" and (family not in BUILT_IN or model.dtype != torch.float32):
        name = getattr(family, "__name__", kind(model.cost_net))
        raise ValueError(
            f"cost_family of the model is {name}, and its weights are {model.dtype}: {format=} "
            f"takes {', '.join(cls.__name__ for cls in BUILT_IN)} and torch.float32 "
            "(model.float()), format='torch' the others"
        )


def _program(
    model: Any, estimator: Any, batch: int | None, times: Tensor | None, format: str
) -> tuple[Any, tuple[Tensor, ...]]:
    """The program, and inputs that it takes."""
    block = block_rows(model.device)
    rows = 3 * block + 5 if batch is None else batch
    like: Any = {"dtype": torch.float64, "device": model.device}
    x, r = torch.zeros(rows, model.x_dim, **like), torch.zeros(rows, model.r_dim, **like)
    model.predict(x, r)  # after which parts have what they keep
    known = DECOMPOSITIONS if format == "onnx" else {}
    some = torch.zeros(block, model.x_dim, **like), torch.zeros(block, model.r_dim, **like)
    function = _folded(_Block(model, times), some, None, known)
    any_number = None if batch else {0: torch.export.Dim("rows", min=1)}
    inputs: tuple[Tensor, ...] = (x, r)
    encode = None
    if estimator is not None:
        inputs = inputs_of(estimator, rows)
        encode = _folded(_Encoder(estimator), (inputs,), ((any_number,) * len(inputs),), known)
    torch.compiler.reset()  # torch keeps the loop of a program before, and its number of blocks
    if encode is None:
        shapes: Any = (any_number,) * 2
        return torch.export.export(
            _Blocks(function, block), inputs, dynamic_shapes=shapes, strict=False
        ), inputs
    shapes = ((any_number,) * len(inputs),)
    whole = _Columns(encode, _Blocks(function, block))
    return torch.export.export(whole, (inputs,), dynamic_shapes=shapes, strict=False), inputs


def _folded(
    module: nn.Module,
    inputs: tuple[Any, ...],
    shapes: Any,
    known: dict[Any, Callable[..., Any]],
) -> nn.Module:
    """The program of a module, in which all that depends on no input is a constant.

    :param known: functions in the place of some operators.
    """
    traced = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)
    whole = traced.run_decompositions(known).module(check_guards=False)
    graph, values, buffers = whole.graph, dict[Any, Any](), dict[Any, Any]()

    def constant(node: Any) -> Any:
        value = values.get(node, node)
        if node in values and isinstance(value, Tensor):
            if node not in buffers:
                name = f"constant_{len(buffers)}"
                whole.register_buffer(name, value.clone(memory_format=torch.contiguous_format))
                buffers[node] = graph.get_attr(name)
            return buffers[node]
        return value

    for node in list(graph.nodes):
        if node.op == "get_attr":
            values[node] = whole
            for part in node.target.split("."):
                values[node] = getattr(values[node], part)
        elif node.op == "call_function" and values.keys() >= {*node.all_input_nodes}:
            args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
        else:
            with graph.inserting_before(node):
                node.args, node.kwargs = map_arg((node.args, node.kwargs), constant)
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op not in ("placeholder", "output"):  # also of assertions
            graph.erase_node(node)
    whole.recompile()
    return torch.fx.GraphModule(whole, graph)  # without tensors that nothing reads


class _Block(nn.Module):
    """Predictions of one block of rows."""

    def __init__(self, model: Any, times: Tensor | None) -> None:
        super().__init__()
        self.model, self.plan, self.noise = model, model.prediction_plan, model.noise(None)
        self.times = times

    def forward(self, x: Tensor, r: Tensor) -> dict[str, Tensor]:
        """What the file has of each row, [b, ...]."""
        draws, response = (
            Predicted(self.model, self.plan, self.noise).read(x, r),
            self.model.response,
        )
        found = {"prediction": draws.mean(response.predict(draws.p_y))}
        if isinstance(response, Ordinal):
            above = draws.mean(draws.p_y.cumulative())
            ends = torch.ones_like(above[:1]), torch.zeros_like(above[:1])
            found["probabilities"] = -torch.cat([ends[0], above, ends[1]]).diff(dim=0).T
        if self.times is not None:
            found["survival"] = 1.0 - draws.mean(draws.p_y.cdf(self.times[:, None, None])).T
        return {name: value.double() for name, value in found.items()}


class _Encoder(nn.Module):
    """What an estimator's model reads of its columns."""

    def __init__(self, estimator: Any) -> None:
        super().__init__()
        self.encoding = estimator.encoding_

    def forward(self, codes: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """x and r in float64, for columns of codes."""
        x, r = self.encoding.encoded(codes)
        return x.double(), r.double()


class _Blocks(nn.Module):
    """A function of blocks of rows, one after the other."""

    def __init__(self, function: nn.Module, block: int) -> None:
        super().__init__()
        self.function, self.block = function, block

    def forward(self, x: Tensor, r: Tensor) -> Any:
        """What the function returns of x [B, x_dim] and r [B, r_dim] in the units of the data."""
        rows, block, device = x.shape[0], self.block, x.device
        # One block more than needed: torch takes a program for one to be another one.
        blocks = torch.arange((rows + 2 * block - 1) // block, device=device)
        place = (blocks[:, None] * block + torch.arange(block, device=device)).clamp(max=rows - 1)

        def step(nothing: Tensor, columns: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
            return nothing.clone(), self.function(*columns)

        _, found = scan(step, torch.zeros(1, device=device), (x[place], r[place]))
        row = torch.arange(rows, device=device)
        every = {name: each[row // block, row % block] for name, each in found.items()}
        return every if len(every) > 1 else every["prediction"]


class _Columns(nn.Module):
    """The same of the columns of a table."""

    def __init__(self, encode: nn.Module, blocks: nn.Module) -> None:
        super().__init__()
        self.encode, self.blocks = encode, blocks

    def forward(self, codes: Sequence[Tensor]) -> Any:
        """What the blocks return for columns of codes, [B] each."""
        return self.blocks(*self.encode(codes))
