"""Rows of which trees and a network learn different things."""

import torch


def rows(count=600, seed=0, response="binary", dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    x, r = (torch.randn(count, k, generator=g, dtype=dtype) for k in (3, 2))
    noise = torch.randn(count, generator=g, dtype=dtype)
    y = x[:, 0] + x[:, 1] * r[:, 0].tanh() + 2.0 * r[:, 1].tanh() + r[:, 0] + noise
    return x, r, (y > 0.0).to(dtype) if response == "binary" else 5.0 + 10.0 * y
