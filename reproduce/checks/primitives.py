"""Order in every float: do the functions in strict predictions keep the order of their arguments?

Strict predictions are compositions of arithmetic, which IEEE 754 rounds without changing an order,
and of few other functions, of which no standard says this. Here these are evaluated at all 2^32
numbers of float32 in their domain, in float32 and in float64, and at neighbours in float64: around
every power of two, and a billion drawn at random. Values may stay, and must not decrease;
in an eighth of the blocks they are compared with those in other layouts and lanes of a vector.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores
from reproduce.study import Study

#: Arguments that are evaluated at once.
BLOCK = 1 << 17
#: One of so many blocks is also evaluated in other layouts.
LAYOUTS = 8
#: Neighbours on either side of a power of two.
AROUND = 1 << 11
#: Pairs of random neighbours, over all blocks.
PAIRS = 1 << 30
#: Where half of the random neighbours lie, in value; the others are uniform among the floats.
_MIDDLE = 40.0
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


class Primitive(NamedTuple):
    """A function, its domain, and +1 if it rises there or -1 if it falls."""

    function: Callable[[Tensor], Tensor]
    low: float
    high: float
    direction: int = 1


PRIMITIVES = {
    "exp": Primitive(torch.exp, -math.inf, math.inf),
    "expm1": Primitive(torch.expm1, -math.inf, 0.0),
    "log1p": Primitive(torch.log1p, -1.0, 0.0),
    "erfc": Primitive(torch.erfc, 0.0, math.inf, -1),
    "ndtri": Primitive(torch.special.ndtri, 0.0, 0.5),
    "sigmoid": Primitive(torch.sigmoid, -math.inf, math.inf),
}
FLOAT32, IN_FLOAT32 = "every float32, in float64", "every float32"
POWERS, RANDOM = "around powers of two", "random neighbours"
ARGUMENTS = (FLOAT32, IN_FLOAT32, POWERS, RANDOM)


def key_of(value: float, dtype: torch.dtype) -> int:
    """The place of a number among all of its type: 0 for 0, and negative for those below."""
    bits = int(torch.tensor(abs(value), dtype=dtype).view(BITS[dtype]))
    return -bits if value < 0.0 else bits


def at(keys: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers at these places [n], int64."""
    values = keys.abs().to(BITS[dtype]).view(dtype)
    return torch.where(keys < 0, -values, values)


def runs(arguments: str, primitive: Primitive, part: int, parts: int) -> Iterator[Tensor]:
    """Rows of increasing arguments [a, n]: part `part` of `parts` of them."""
    dtype = torch.float32 if arguments in (FLOAT32, IN_FLOAT32) else torch.float64
    low, high = key_of(primitive.low, dtype), key_of(primitive.high, dtype)
    if dtype == torch.float32:
        edges = torch.linspace(low, high, parts + 1, dtype=torch.float64).long().tolist()
        for first in range(edges[part], edges[part + 1], BLOCK):
            last = min(first + BLOCK, edges[part + 1], high)
            values = at(torch.arange(first, last + 1), dtype)[None]
            yield values.double() if arguments == FLOAT32 else values
    elif arguments == POWERS:
        centres = [0, *(sign * (e << 52) for e in range(1, 2047) for sign in (1, -1))]
        inside = sorted(c for c in {low, high, *centres} if low <= c <= high)[part::parts]
        steps = torch.arange(-AROUND, AROUND + 1)
        for some in torch.tensor(inside).split(256):
            yield at((some[:, None] + steps).clamp(low, high), dtype)
    else:
        draw = torch.Generator().manual_seed(part)
        for number in range(PAIRS // parts // BLOCK):
            if number % 2:
                x = at(torch.randint(low, high, (BLOCK,), generator=draw), dtype)
            else:
                ends = max(primitive.low, -_MIDDLE), min(primitive.high, _MIDDLE)
                share = torch.rand(BLOCK, generator=draw, dtype=dtype)
                x = ends[0] + (ends[1] - ends[0]) * share
            pair = torch.stack([x, torch.nextafter(x, torch.full_like(x, math.inf))], 1)
            yield pair.clamp(primitive.low, primitive.high)


def judged(primitive: Primitive, x: Tensor, layouts: bool) -> dict[str, float]:
    """How many steps from an argument to the next in a row go the wrong way, and by how much.

    :param layouts: whether the arguments are evaluated in other layouts as well.
    """
    values = primitive.function(x)
    before, after = values[:, :-1], values[:, 1:]
    wrong = after < before if primitive.direction > 0 else after > before
    found = {"steps": float(wrong.numel()), "falls": float(wrong.sum())}
    if found["falls"]:
        found["largest fall"] = ((before - after) / after).abs()[wrong].max().item()
    if layouts:
        in_other_lanes = primitive.function(x.flatten()[1:].clone())
        found["other lanes"] = float((in_other_lanes != values.flatten()[1:]).sum())
        strided = torch.stack([x, x], -1)[..., 0]
        found["other layouts"] = float((primitive.function(strided) != values).sum())
        found["compared"] = float(values.numel())
    return found


@torch.no_grad()
def run(fit: Fit, device: str = "cpu") -> Scores:
    """Counts of one part of the arguments of one function."""
    primitive, found = PRIMITIVES[fit.method], Scores()
    for number, x in enumerate(runs(fit.dataset, primitive, int(fit.split), PARTS)):
        if number >= fit.options.get("blocks", math.inf):
            break
        for name, value in judged(primitive, x, number % LAYOUTS == 0).items():
            join = max if name == "largest fall" else float.__add__
            found[name] = join(found.get(name, 0.0), value)
    return found


def report(table: pd.DataFrame) -> str:
    """A row for each processor capability of torch, function and kind of arguments."""
    rows, processors = [], table["settings"].map(lambda text: json.loads(text)["capability"])
    groups = table.assign(processor=processors).groupby(
        ["processor", "method", "dataset"], sort=False
    )
    for (processor, function, arguments), found in groups:
        values = {str(name): part["value"] for name, part in found.groupby("metric")}
        counts = [f"{values[name].sum():,.6g}" for name in COUNTS if name in values]
        largest = f"{values['largest fall'].max():.1e}" if "largest fall" in values else ""
        rows.append([str(processor), str(function), str(arguments), *counts, largest])
    return markdown(["processor", "function", "arguments", *COUNTS, "largest fall, relative"], rows)


#: Counts of `judged`, in the order of the table.
COUNTS = ("steps", "falls", "compared", "other layouts", "other lanes")
#: Parts of the arguments, each of which is done and kept on its own.
PARTS = 16
STUDY = Study(
    *("primitives", str(__doc__), ARGUMENTS, PRIMITIVES, run, "10"),
    counted="parts",
    count=PARTS,
    protocol="exhaustive",
    version=lambda method: {"capability": torch.backends.cpu.get_cpu_capability()},
    quick={"blocks": 1},
)
