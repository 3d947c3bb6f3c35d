"""Every baseline against its published formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from baseline_checks import (
    Array,
    Make,
    arrays,
    assert_score_is,
    decreases,
    made,
    positive,
    two_stream,
    with_normal_weights,
)
from torch import nn

from pyro_gcm.baselines import CMNN, MLP, MM, SMM, SMNN, LipschitzMonotone, PosNN, SwitchMonotone

Map = Callable[[Array], Array]


# Layers one after the other


def softplus(u: Array) -> Array:
    return np.asarray(np.logaddexp(u, 0.0))


def elu(u: Array) -> Array:
    return np.where(u > 0.0, u, np.expm1(np.minimum(u, 0.0)))


def thirds(base: Map, u: Array) -> Array:
    """The activation of the paper's and the released form on 7 units: 2, 2 and 3."""
    a, b, c = u[..., :2], u[..., 2:4], u[..., 4:]
    relu = partial(np.maximum, 0.0)
    joined = -base(-(relu(c) - 1.0)) + base(1.0 - relu(-c))
    return np.concatenate([base(a), -base(-b), joined], -1)


def sevens(u: Array) -> Array:
    """The activation of the method's authors: 16 units are 7, 7, 2 and 4 units are 2, 2, 0."""
    part = {16: 7, 4: 2}[u.shape[-1]]
    a, b, c = u[..., :part], u[..., part : 2 * part], u[..., 2 * part :]
    joined = np.where(c < 0.0, elu(c + 1.0) - 1.0, -elu(1.0 - c) + 1.0)
    return np.concatenate([elu(a), -elu(-b), joined], -1)


def sigmoid(u: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-u)))


def one_stream(body: nn.Module, x: Array, r: Array, of: Map, activation: Map, last: Map) -> Array:
    """Layers of x and r together, with weights `of` from r on."""
    w = arrays(body)
    u = x @ w["x_layer.weight"].T + w["x_layer.bias"] + r @ of(w["r_layer.weight"]).T
    if "hidden.0.weight" in w:
        u = activation(u) @ of(w["hidden.0.weight"]).T + w["hidden.0.bias"]
    return np.asarray(last(u) @ of(w["output.weight"]).T + w["output.bias"])


#: Weights from r on, the activation of the first layer, and that of the last one.
ONE_STREAM: dict[str, tuple[Make, Map, Map, Map]] = {
    "MLP": (MLP, lambda w: w, np.tanh, np.tanh),
    "PosNN, canonical": (partial(PosNN, form="canonical"), positive, sigmoid, sigmoid),
    "PosNN, released": (partial(PosNN, form="released"), positive, np.tanh, np.tanh),
    "CMNN, type 1": (partial(CMNN, form="type1", hidden=16), np.abs, sevens, sevens),
}
#: The activation from r on.
TWO_STREAMS: dict[str, tuple[Make, Map]] = {
    "PosNN": (PosNN, np.tanh),
    "CMNN": (partial(CMNN, hidden=7), partial(thirds, softplus)),
    "CMNN, released": (partial(CMNN, hidden=7, form="released"), partial(thirds, elu)),
}


@pytest.mark.parametrize(("make", "of", "first", "last"), ONE_STREAM.values(), ids=ONE_STREAM)
def test_one_stream_is_its_layers(make: Make, of: Map, first: Map, last: Map) -> None:
    model = made(make)
    assert_score_is(model, lambda x, r: one_stream(model.network, x, r, of, first, last)[:, 0])


@pytest.mark.parametrize(("make", "activation"), TWO_STREAMS.values(), ids=TWO_STREAMS)
def test_two_streams_are_the_published_body(make: Make, activation: Map) -> None:
    model = made(make)
    assert_score_is(model, lambda x, r: two_stream(model.network, x, r, activation)[:, 0])


def leaky(v: Array) -> Array:
    return np.where(v < 0, 0.01 * v, np.where(v > 1, 0.99 + 0.01 * v, v))


@pytest.mark.parametrize(
    ("form", "layers", "bounded", "of_e", "of_x"),
    [
        ("canonical", 3, leaky, np.exp, np.exp),
        ("released", 2, lambda v: np.clip(v, 0.0, 2.0), positive, lambda w: w),
    ],
    ids=["canonical", "released"],
)
def test_smnn_is_its_formula(form: str, layers: int, bounded: Map, of_e: Map, of_x: Map) -> None:
    # These weights use all three pieces of R.
    model = with_normal_weights(SMNN, 0.7, hidden=4, layers=layers, form=form)
    p = arrays(model)

    def reference(x: Array, r: Array) -> Array:
        e, c, q = r, x[:, :0], x
        for i in range(layers):
            weights = of_e(p[f"exp_units.{i}.weight"])
            if i:
                weights = np.hstack([weights, of_x(p[f"exp_from_confluence.{i - 1}.weight"])])
            e = bounded(np.hstack([e, c]) @ weights.T + p[f"exp_units.{i}.bias"])
            c = bounded(q @ p[f"confluence_units.{i}.weight"].T + p[f"confluence_units.{i}.bias"])
            q = np.maximum(q @ p[f"relu_units.{i}.weight"].T + p[f"relu_units.{i}.bias"], 0)
        weights = np.hstack([of_e(p["output.weight"]), of_x(p["output_from_x.weight"])])
        out = np.hstack([e, c, q]) @ weights.T + p["output_from_x.bias"]
        return np.asarray(out[:, 0])

    assert_score_is(model, reference)


def test_switch_monotone_is_the_published_formula() -> None:
    model = with_normal_weights(SwitchMonotone, 0.5, hidden=4)
    p = arrays(model)

    def silu(v: Array) -> Array:
        return v / (1 + np.exp(-v))

    def selu(v: Array) -> Array:
        alpha, scale = 1.6732632423543772, 1.0507009873554805
        return scale * np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0)))

    def layer(h: Array, name: str, act) -> Array:
        w, b = p[f"{name}.weight"], p[f"{name}.bias"]
        return act(h) @ np.maximum(w, 0).T + act(-h) @ np.minimum(w, 0).T + b

    def reference(x: Array, r: Array) -> Array:
        free = silu(x @ p["free.0.weight"].T + p["free.0.bias"])
        free = silu(free @ p["free.2.weight"].T + p["free.2.bias"])
        h = layer(np.hstack([free, r]), "first", lambda v: v)
        for i in range(3):
            h = layer(h, f"switched.{i}", selu)
        return h[:, 0]

    assert_score_is(model, reference)


# MM and SMM


def maximum(values: Array, beta: float | None, sign: float = 1.0) -> Array:
    """The maximum (sign 1) or minimum (-1) over the last axis, or sign LSE(sign beta v) / beta."""
    v = sign * values
    return sign * (v.max(-1) if beta is None else np.log(np.exp(beta * v).sum(-1)) / beta)


@pytest.mark.parametrize("sizes", [{}, {"groups": 2, "units": 4}], ids=["default", "2 x 4"])
@pytest.mark.parametrize(
    ("method", "form", "beta"),
    [
        (MM, "paper", None),
        (MM, "canonical", None),
        (SMM, "paper", 4.0),
        (SMM, "canonical", np.exp(-1.0)),
        (SMM, "canonical", np.exp(0.7)),
    ],
    ids=["MM paper", "MM canonical", "SMM paper", "SMM canonical", "SMM learned"],
)
def test_min_max_is_the_extremum_over_groups_of_pieces(
    method: type[MM], form: str, beta: float | None, sizes: dict[str, int]
) -> None:
    model = made(method, hidden=5, form=form, **sizes)
    assert ("log_beta" in dict(model.named_parameters())) == (method is SMM and form != "paper")
    if "log_beta" in dict(model.named_parameters()):
        assert model.log_beta == -1.0
        model.log_beta.data.fill_(np.log(beta))
    default = 3 if form == "paper" else 6
    shape = (-1, sizes.get("groups", default), sizes.get("units", default))

    def reference(x: Array, r: Array) -> Array:
        if form == "paper":
            return maximum(maximum(two_stream(model.pieces, x, r).reshape(shape), beta, -1), beta)
        return maximum(maximum(linear_pieces(x, r).reshape(shape), beta), beta, -1)

    def linear_pieces(x: Array, r: Array) -> Array:
        w = arrays(model.pieces)
        free = x @ w["x_layer.weight"].T + w["x_layer.bias"]
        return np.asarray(free + r @ np.exp(w["log_weight"]).T)

    assert_score_is(model, reference)


# CMNN, and the activations


def test_type_2_of_cmnn_gives_every_input_a_layer_of_its_own() -> None:
    model = made(CMNN, form="type2")
    model.network.x_bias.data.normal_()
    model.network.r_bias.data.normal_()
    w = arrays(model.network)

    def reference(x: Array, r: Array) -> Array:
        free = [elu(x[:, [j]] * w["x_weight"][j] + w["x_bias"][j]) for j in range(3)]
        rising = [sevens(r[:, [j]] * np.abs(w["r_weight"][j]) + w["r_bias"][j]) for j in range(2)]
        u = np.concatenate(free, 1) @ w["x_layer.weight"].T + w["x_layer.bias"]
        u = u + np.concatenate(rising, 1) @ np.abs(w["r_layer.weight"]).T
        return np.asarray((sevens(u) @ np.abs(w["output.weight"]).T + w["output.bias"])[:, 0])

    assert_score_is(model, reference)


# LipschitzMonotone, and its bound


@pytest.mark.parametrize("scale", [0.05, 2.0], ids=["weights below the norm", "above"])
def test_lipschitz_monotone_is_the_published_formula(scale: float) -> None:
    bound = 1.7
    model = with_normal_weights(LipschitzMonotone, scale, hidden=6, bound=bound)
    p = arrays(model)
    share = bound ** (1 / 3)

    def sort_pairs(h: Array) -> Array:
        a, b = h[:, 0::2], h[:, 1::2]
        return np.stack([np.minimum(a, b), np.maximum(a, b)], 2).reshape(h.shape)

    def reference(x: Array, r: Array) -> Array:
        h = np.hstack([x, r]) @ np.clip(p["first.weight"], -share, share).T + p["first.bias"]
        for name in ("second", "output"):
            weights = p[f"{name}.weight"].copy()
            for row in weights:
                if np.abs(row).sum() > share:
                    row *= share / np.abs(row).sum()
            h = sort_pairs(h) @ weights.T + p[f"{name}.bias"]
        return h[:, 0] + bound * r.sum(1)

    assert_score_is(model, reference)


def test_slopes_reach_the_bound_and_the_score_does_not_decrease_at_its_most_negative_ones() -> None:
    model = with_normal_weights(LipschitzMonotone, 1.0, hidden=6, bound=1.7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(100.0)
    r = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    model.score(torch.zeros(1, 3, dtype=torch.float64), r).backward()
    assert torch.allclose(r.grad, torch.full_like(r, 2 * 1.7), rtol=0, atol=1e-12)
    with torch.no_grad():
        model.first.weight.neg_()
    assert decreases(model, 70_000) == 0
