"""Figures in files."""

from __future__ import annotations

from pathlib import Path

from pyro_gcm.cli.errors import WrongUse, listed


def check_figure(option: str, path: Path) -> None:
    """Refuse a name that does not end as a figure does."""
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.removeprefix(".") not in kinds:
        raise WrongUse(f"{option} must end in one of {listed(kinds)}, got {path}")
