"""A pytest plugin that makes torch round as another processor does.

With ``--as-on-another-processor K``, K = 1, 2 or 3, kernels of torch for the CPU keep fewer bits of
what processors compute differently. Each K is a processor of its own:

- products, sums of more than two terms and factorisations are rounded to multiples of 2^K units in
  the last place, and so is what a step of an optimiser changed of a parameter;
- exp, log, erfc and their like, of which libraries promise one unit or so, are rounded to even
  units, away from zero for an odd K and towards it for an even one, and so are exponential and
  gamma draws. Normal ones stay, since torch draws them in two ways that must agree.

A rounded number depends on the exact one alone, and order, signs and small whole numbers are kept.
So what is promised to the bit on every processor still holds: a row is the same in every batch,
predictions never fall. Sums of two terms, products of two numbers and roots are exact to the last
bit everywhere, and stay as they are. What changes is the course of a training and what was stored:
a test that fails here fails on somebody's machine.

The kernels lie below autograd, vmap and tracing. Programs that a test starts, NumPy and SciPy
compute as ever.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.library import Library, get_kernel

PRODUCTS = ["mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "dot", "vdot"]
SUMS = ["sum", "nansum", "mean", "var", "std", "linalg_vector_norm", "norm"]
FACTORISATIONS = ["linalg_cholesky_ex", "cholesky", "linalg_solve_triangular", "triangular_solve"]
# fmt: off
FUNCTIONS = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "erf", "erfc", "erfinv",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "sigmoid", "softplus", "log_sigmoid_forward", "silu", "gelu", "elu", "mish", "logit",
    "logaddexp", "logaddexp2", "_softmax", "_log_softmax",
    "lgamma", "digamma", "polygamma", "igamma", "igammac",
    "special_erfcx", "special_ndtri", "special_log_ndtr",
    "exponential_", "log_normal_", "_standard_gamma",
]
# fmt: on

#: Powers that are products, quotients and roots.
EXACT_POWERS = (-2, -1, -0.5, 0, 0.5, 1, 2, 3)

INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}

#: The replaced kernels, which go with it.
LIBRARY = Library("aten", "IMPL")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that chooses a processor."""
    parser.getgroup("processors").addoption(
        "--as-on-another-processor",
        type=int,
        choices=range(4),
        default=0,
        metavar="K",
        help="round as another processor does: number 1, 2 or 3 (0: as this one, default)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Replace the kernels before a test computes anything."""
    if number := config.getoption("--as-on-another-processor"):
        round_as_on(number)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which processor it is, if another one."""
    number = config.getoption("--as-on-another-processor")
    return [f"rounds as another processor does, number {number}"] if number else []


def round_as_on(number: int) -> None:
    """Round as another processor does, for the rest of the process."""
    coarsely = rounding(number, up=1 << (number - 1))
    finely = rounding(1, up=number % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there was a kernel already
        for name in PRODUCTS:
            replace(name, coarsely, has_terms)
        for name in SUMS:
            replace(name, coarsely, lambda args, result: args[0].numel() > 2 * result.numel())
        for name in FACTORISATIONS:
            replace(name, coarsely, lambda args, result: args[0].shape[-1] > 1)
        replace("native_layer_norm", coarsely, always)
        for name in FUNCTIONS:
            replace(name, finely, always)
        replace("pow", finely, is_no_exact_power)
    round_optimizers(coarsely)


def rounding(bits: int, *, up: int) -> Callable[[torch.Tensor], None]:
    """A function that clears the last bits of a float, in place, after `up` was added to them.

    Floats of one sign are in the order of the integers that have their bits, so that this keeps
    order. It keeps 0, inf and nan, whose last bits are clear, and leaves other types alone.
    """
    numbers = {
        kind: (whole, torch.tensor(up, dtype=whole), torch.tensor(-1 << bits, dtype=whole))
        for kind, whole in INTEGERS.items()
    }

    def round_(values: torch.Tensor) -> None:
        if values.dtype in numbers:
            whole, summand, mask = numbers[values.dtype]
            values.view(whole).add_(summand).bitwise_and_(mask)

    return round_


def always(args: Any, result: Any) -> bool:
    return True


def has_terms(args: Any, result: Any) -> bool:
    last = args[-1]
    return last.shape[max(0, last.dim() - 2)] > 1


def is_no_exact_power(args: Any, result: Any) -> bool:
    return isinstance(args[0], torch.Tensor) and args[1] not in EXACT_POWERS


def replace(
    name: str, round_: Callable[[torch.Tensor], None], concerned: Callable[[Any, Any], bool]
) -> None:
    """Round what the kernels of an operator give, also those that write into a tensor."""
    for operator in (name, name + "_"):
        packet = getattr(torch.ops.aten, operator, None)
        for overload in packet.overloads() if packet else ():
            full = f"aten::{operator}" + ("" if overload == "default" else f".{overload}")
            if not has_kernel(full) or full.startswith("aten::pow.Tensor_Tensor"):
                continue  # a base that is a number comes as one, and the kernel takes tensors
            call = get_kernel(full, "CPU").call_boxed

            def kernel(keys: Any, *args: Any, call: Any = call, **kwargs: Any) -> Any:
                result = call(keys, *args, **kwargs)
                with torch._C.DisableTorchFunction():
                    for part in result if isinstance(result, tuple | list) else (result,):
                        if concerned(args, part):
                            round_(part)
                return result

            LIBRARY.impl(full.removeprefix("aten::"), kernel, "CPU", with_keyset=True)


def has_kernel(name: str) -> bool:
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
    except RuntimeError:  # an operator of TorchScript alone
        return False


def round_optimizers(round_: Callable[[torch.Tensor], None]) -> None:
    """Round the parameters that a step of an optimiser changes, where it changes them."""
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    before: dict[int, list[torch.Tensor]] = {}

    def parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        return [values for group in optimizer.param_groups for values in group["params"]]

    def keep(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        before[id(optimizer)] = [values.detach().clone() for values in parameters(optimizer)]

    def change(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for values, old in zip(parameters(optimizer), before.pop(id(optimizer)), strict=True):
            values = values.detach()
            new = values.clone()
            round_(new)
            values.copy_(torch.where(values == old, old, new))

    register_optimizer_step_pre_hook(keep)
    register_optimizer_step_post_hook(change)
