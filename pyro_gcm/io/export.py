"""The predictor of a trained model as a program that runs without this library.

Strictness needs a row to get the same bits wherever it stands. The program pads its rows to blocks
of one size, as `predict` does, multiplies block by block in columns that start at multiples of 64
bytes, and computes the order event in float64 by steps that keep the order of the revenues: sums,
products and exponentials.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot, pad
from torch.overrides import TorchFunctionMode

from pyro_gcm._utils.evaluating import evaluating
from pyro_gcm._utils.process_state import exclusively
from pyro_gcm._utils.validation import kind, one_of, positive_int
from pyro_gcm._utils.writing import check_writable, usable, write_file
from pyro_gcm.distributions.families import BUILT_IN, base_distribution
from pyro_gcm.distributions.numerics import coarse, on_grid
from pyro_gcm.models import GCM, MemberGCM
from pyro_gcm.nets.members import MemberCosts
from pyro_gcm.prediction.blocks import mean_of_draws
from pyro_gcm.responses import Binary

#: Rows that the program multiplies at a time.
BLOCK_ROWS = 32
#: Formats, and how their files end.
FORMATS = {"torch": ".pt2", "onnx": ".onnx"}


def export(
    model: GCM, path: str | Path, *, format: str = "torch", batch: int | None = None
) -> Path:
    """Write `predict(x, r)` of a trained GCM with a binary response to one file.

    The file takes x [B, x_dim] and r [B, r_dim] in float64, in the units of the data, and returns
    Pr(y = 1), [B], in float64. It contains a copy of the weights, and needs torch or an ONNX
    runtime to run, not this library; it checks nothing, so that a NaN gives NaN.

    What is promised: rows are computed in the blocks of `predict`, wherever they stand, and the
    order event in steps that keep the order of the revenues. So a prediction does not fall in r,
    within a call and between calls, as far as the runtime multiplies equal blocks equally on one
    machine, which `audit_monotonicity` measures, since it takes any function. Predictions agree
    with those of `predict` to rounding, for weights in float32 to about 1e-6 on rows like those of
    training and 1e-5 far outside of them, for weights in float64 to 1e-13, but not to the last bit,
    so that the two should not be mixed where order matters. Between machines, runtimes and numbers
    of threads no order is promised, only that agreement.

    :param model: fitted with objective "conditional" or "members" and response "binary": a
        `MemberGCM`, or a `GCM` with prior "conditional" or "categorical"; for "torch" costs of a
        built-in family, for "onnx" logistic costs, as members have, or Laplace.
    :param path: of the file, which ends in .pt2 or .onnx; an existing one is replaced once the new
        one is whole.
    :param format: "torch", a program of `torch.export`, for `torch.export.load`; or "onnx", for
        which the extra `onnx` has to be installed.
    :param batch: number of rows B of the program, for runtimes that need one; any by default.
    :returns: the path.
    :raises TypeError: for what is no `GCM`.
    :raises ValueError: for a part of the model that cannot be exported, and other formats.
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
    if type(model) not in (GCM, MemberGCM):
        raise TypeError(f"model must be a GCM itself, whose story export knows, got {kind(model)}")
    rows = None if batch is None else positive_int("batch", batch)
    _check_parts(model, format)
    device, path = model.device, usable(path)
    check_writable(path)
    if path.suffix != FORMATS[format]:
        raise ValueError(f"path must end in {FORMATS[format]} for {format=}, got {path.name}")
    example = 3 * BLOCK_ROWS + 5 if rows is None else rows
    like: Any = {"dtype": torch.float64, "device": device}
    inputs = torch.zeros(example, model.x_dim, **like), torch.zeros(example, model.r_dim, **like)
    any_number = {0: torch.export.Dim("rows", min=1)} if rows is None else None
    with exclusively(), torch.no_grad(), evaluating(model), pyro.validation_enabled(False):
        predictor = _OfMembers(model) if isinstance(model, MemberGCM) else _OfDraws(model)
        predictor = copy.deepcopy(predictor).requires_grad_(False).eval()
        try:
            program = torch.export.export(
                predictor, inputs, dynamic_shapes=(any_number, any_number), strict=False
            )
        except Exception as error:  # torch raises many types of errors
            raise ValueError(
                "model has a part that torch.export cannot follow, such as a module of its own "
                f"with choices that depend on values: {str(error).splitlines()[0]}"
            ) from error
        content = _bytes_of(program, inputs, format)
    write_file(path, content)
    return path


def _check_parts(model: GCM, format: str) -> None:
    """Raise ValueError for what has no program."""
    if not model.is_trained:
        raise ValueError("model has not been fitted, got one with its initial weights")
    if model.objective not in ("conditional", "members"):
        raise ValueError(
            f"model was trained for objective={model.objective!r}, whose predictions weigh draws "
            "by x: export takes 'conditional' and 'members'"
        )
    if type(model.response) is not Binary:
        raise ValueError(
            f"model has response {model.response.named!r}: export takes 'binary', "
            "since the others invert the normal distribution, which has no form that keeps order"
        )
    of_members = isinstance(model, MemberGCM)
    if of_members and not isinstance(model.cost_net, MemberCosts):
        raise ValueError(
            f"cost_family of the model is a module, {kind(model.cost_net)}: with members export "
            "takes the costs of a family that cost_family names"
        )
    if not of_members:
        example = torch.zeros(1, model.x_dim, dtype=model.dtype, device=model.device)
        prior = model.z_prior(example)
        normal = isinstance(getattr(prior, "base_dist", None), torch.distributions.Normal)
        if not model.reads_x or not (normal or _is_categorical(prior)):
            raise ValueError(
                f"prior of the model is {type(prior).__name__} of {kind(model.z_prior)}: export "
                "takes a MemberGCM, or prior 'conditional' or 'categorical'"
            )
    cost = getattr(model.cost_net, "family", None)
    known = [f for f, (_, standard) in BUILT_IN.items() if format == "torch" or standard.in_onnx]
    if cost not in known:
        name = cost.__name__ if isinstance(cost, type) else kind(model.cost_net)
        instead = ", and format='torch' the others" if cost in BUILT_IN else ""
        raise ValueError(
            f"cost_family of the model is {name}: {format=} takes "
            f"{', '.join(one.__name__ for one in known)}{instead}"
        )
    if format == "onnx" and model.dtype != torch.float32:
        raise ValueError(
            f"model has weights in {model.dtype}: format='onnx' takes float32, model.float()"
        )


def _is_categorical(prior: Any) -> bool:
    return isinstance(prior, torch.distributions.OneHotCategorical)


class _Predictor(nn.Module):
    """`predict` without choices that depend on values, for n blocks of rows at a time.

    All tensors have the blocks first, as the only dimension whose size is not fixed.
    """

    cost_net: Any

    def __init__(self, model: GCM) -> None:
        super().__init__()
        self.x_standardizer, self.r_standardizer = model.x_standardizer, model.r_standardizer
        self.revenue_map, self.cost_net = model.revenue_map, model.cost_net
        self.infinite_net = model.infinite_net
        self.z_prior = model.z_prior

    def draws(self, covariates: Tensor) -> tuple[Any, Tensor, Tensor | None]:
        """For standardised x [n, b, x_dim] the costs [n, N, b], what p0 reads, and weights."""
        raise NotImplementedError

    def of_draws(self, mapped: Tensor) -> Tensor:
        """The revenues [n, N or 1, b, (G,) K] of the draws."""
        return mapped.unsqueeze(1)

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1), [B], for x [B, x_dim] and r [B, r_dim] in the units of the data."""
        rows, block = x.shape[0], torch.arange(BLOCK_ROWS, device=x.device)
        # One block more than needed: torch takes a program for one to be another one.
        blocks = torch.arange((rows + 2 * BLOCK_ROWS - 1) // BLOCK_ROWS, device=x.device)
        place = (blocks[:, None] * BLOCK_ROWS + block).clamp(max=rows - 1)  # [n, b]
        with _ProductsOfBlocks():
            mapped = on_grid(self.revenue_map(coarse(self.r_standardizer(r[place]))))
            cost, read, weights = self.draws(self.x_standardizer(x[place]))
            logits = None if self.infinite_net is None else self.infinite_net(read)
        hit = _probability(cost, self.of_draws(mapped), logits)
        mean = mean_of_draws(hit, weights)
        row = torch.arange(rows, device=x.device)
        return mean[row // BLOCK_ROWS, row % BLOCK_ROWS]


class _OfDraws(_Predictor):
    """Draws of a normal z, or all values of a categorical one."""

    base: Tensor

    def __init__(self, model: GCM) -> None:
        super().__init__(model)
        self.register_buffer("base", model.base_samples()[..., : model.z_dim].clone())  # [N, 1, D]

    def draws(self, covariates: Tensor) -> tuple[Any, Tensor, Tensor | None]:
        prior, weights = self.z_prior(covariates), None
        if _is_categorical(prior):
            weights = prior.probs.movedim(-1, 1)  # [n, D, b]
            values = torch.eye(weights.shape[1], dtype=weights.dtype, device=weights.device)
            z = values[:, None].expand(*weights.shape, -1)
        else:
            normal = prior.base_dist
            z = normal.loc.unsqueeze(1) + normal.scale.unsqueeze(1) * self.base
        return self.cost_net(z), covariates.unsqueeze(1), weights


class _OfMembers(_Predictor):
    """All members, whose layers are taken apart into a matrix for each."""

    numeric: Tensor
    index: Tensor

    def __init__(self, model: MemberGCM) -> None:
        super().__init__(model)
        encoder = model.encoder
        self.features, self.members = encoder.features, encoder.members
        numeric, index, parts = self.features.choice()
        self.register_buffer("numeric", numeric)
        self.register_buffer("index", index)
        self.parts = nn.ParameterList(_copied(part) for part in parts)
        later: list[Any] = list(encoder.layers)
        active, first = self.features.active, encoder.first
        weight = first.s[:, :, None] * first.weight[:, active]
        weights = [weight if first.r is None else weight * first.r[:, None, active]]
        weights += [a.s[:, :, None] * a.weight * a.r[:, None] for a in later]
        weights.append(self.cost_net.layer.weight.mT)
        layers = [first, *later, self.cost_net.layer]
        self.weights = nn.ParameterList(_copied(w) for w in weights)
        self.biases = nn.ParameterList(_copied(layer.bias) for layer in layers)

    def draws(self, covariates: Tensor) -> tuple[Any, Tensor, Tensor | None]:
        features = self.features.chosen(covariates, self.numeric, self.index, list(self.parts))
        outputs, encoded = [], []
        for k in range(self.members):
            a = features
            for weight, bias in list(zip(self.weights, self.biases, strict=True))[:-1]:
                a = torch.relu(linear(a, weight[k], bias[k]))
            outputs.append(linear(a, self.weights[-1][k], self.biases[-1][k]))
            z = one_hot(torch.tensor(k), self.members).to(a).expand(*a.shape[:-1], -1)
            encoded.append(torch.cat([z, a], -1))
        cost = self.cost_net.of_outputs(torch.stack(outputs, 1))
        return cost, torch.stack(encoded, 1), self.z_prior(covariates).probs.movedim(-1, 1)

    def of_draws(self, mapped: Tensor) -> Tensor:
        return mapped.movedim(2, 1)


def _copied(weights: Tensor) -> Tensor:
    return weights.detach().clone(memory_format=torch.contiguous_format)


def _probability(cost: Any, revenue: Tensor, logits: Tensor | None) -> Tensor:
    """Pr(c < r) [n, N, b] in float64, by steps that increase with every revenue."""
    base, alternatives = base_distribution(cost), len(cost.event_shape) == 2
    u = (revenue.double() - base.loc.double()) * (1.0 / base.scale.double())
    _, standard = BUILT_IN[type(base)]
    tail = 0.5 * standard.two_tails(u.abs() * (1.0 / standard.unit))
    hits = list(torch.where(u < 0.0, tail, 1.0 - tail).unbind(-1))
    hit = hits[0]  # [n, N, b, (G)]
    for also in hits[1:]:
        hit = hit * also
    if logits is not None:
        hit = hit * (1.0 / (1.0 + logits.double().exp()))
    if not alternatives:
        return hit
    misses = (1.0 - hit).unbind(-1)
    none = misses[0]
    for also in misses[1:]:
        none = none * also
    return 1.0 - none


class _ProductsOfBlocks(TorchFunctionMode):
    """Inside, a layer multiplies the rows of one block at a time, 64 bytes or more apart."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Takes layers apart; passes everything else on."""
        function = _linear if func is linear else func
        return function(*args, **(kwargs or {}))


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    missing = -input.shape[-1] % (64 // input.element_size())
    rows = pad(input, (0, missing)).flatten(1, -2)  # [n, draws and rows of a block, columns]
    matrix = pad(weight, (0, missing)).mT.expand(rows.shape[0], -1, -1)
    product = torch.bmm(rows, matrix)
    if bias is not None:
        product = product + bias
    return product.unflatten(1, input.shape[1:-1])


def _bytes_of(program: Any, inputs: tuple[Tensor, ...], format: str) -> bytes:
    if format == "torch":
        file = io.BytesIO()
        torch.export.save(program, file)
        return file.getvalue()
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "format='onnx' needs the packages of the extra: pip install 'pyro-gcm[onnx]'"
        ) from error
    with warnings.catch_warnings():  # of torch about itself
        warnings.simplefilter("ignore")
        made = torch.onnx.export(program, inputs, dynamo=True, verbose=False)
    assert made is not None
    content: bytes = made.model_proto.SerializeToString()
    return content
