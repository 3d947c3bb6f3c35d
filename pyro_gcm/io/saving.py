"""`save` and `load`."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import nn

from pyro_gcm._utils.archive import is_name, undamaged
from pyro_gcm._utils.options import checks, flag, mapping, path_of
from pyro_gcm._utils.plain_data import plain, read, written
from pyro_gcm._utils.threads import one_thread
from pyro_gcm._utils.validation import shown
from pyro_gcm.io.folder import MANIFEST, read_folder, write_folder
from pyro_gcm.io.tree import Decoder, Encoder, Factories, MissingPart

CARD, WEIGHTS = "card.json", "weights.safetensors"
_OF_CARD = {"class": str, "versions": dict, "metrics": dict, "architecture": dict}


@checks(factories=mapping, metrics=mapping)
@one_thread()
def save(
    model_or_estimator: object,
    folder: str | Path,
    *,
    factories: Factories | None = None,
    metrics: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Path:
    """Save a model or an estimator into a folder, without pickle.

    The folder has `weights.safetensors`, `card.json` (what it is, with the arguments it was made
    with, versions, how it was trained) and `manifest.json` (size and SHA-256 of the others). After
    an error or an interrupt there is what was there before. A folder that is there stays, with its
    permissions, and so do files in it that file managers and notebooks leave.

    :param factories: functions without arguments for the parts that come from outside of the
        library, by the argument's name, such as `{"cost_family": make}`, or `"guide.q_z"` for one
        inside another. `load` needs the same; the weights of what they return are saved.
    :param metrics: what is known of its quality, kept in the card, as JSON has it: None, or text,
        in the place of a number that is not finite.
    :param overwrite: replace what was saved in the folder before.
    :returns: the folder.
    :raises TypeError: for parts from outside without a factory, by their argument's name.
    :raises ValueError: for what could not be loaded again as it is.
    :raises FileExistsError: if the folder is not empty, unless it holds what was saved and
        `overwrite` is set.

    >>> import tempfile
    >>> import torch
    >>> from pyro_gcm import GCM, load, save
    >>> model, x, r = GCM(2, 1), torch.zeros(3, 2), torch.zeros(3, 1)
    >>> with tempfile.TemporaryDirectory() as path:
    ...     again = load(save(model, f"{path}/model"))
    >>> torch.equal(again.predict(x, r), model.predict(x, r))
    True
    """
    from safetensors.torch import save as safetensors_of

    import pyro_gcm

    folder, overwrite = path_of("folder", folder), flag("overwrite", overwrite)
    if getattr(getattr(model_or_estimator, "response", None), "is_part", False):
        raise ValueError(
            "model_or_estimator must be the model of all responses: response_model is for "
            "predictions"
        )
    factories = factories or {}
    encoder = Encoder(factories)
    architecture = encoder.part(model_or_estimator, "")
    card = {
        "class": architecture["type"],
        "versions": {
            "pyro_gcm": pyro_gcm.__version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "pyro": str(pyro.__version__),
            "safetensors": version("safetensors"),
        },
        "metrics": plain(metrics or {}, "metrics"),
        "architecture": architecture,
    }
    for name in encoder.files:
        if not is_name(name) or name in (CARD, WEIGHTS, MANIFEST):
            raise ValueError(
                f"{name!r} must be a name of letters, digits, '_', '.' and '-', and not that of "
                "another file of the folder"
            )
    decoder = Decoder(encoder.tensors, encoder.files, factories, torch.device("cpu"))
    _check_same(model_or_estimator, decoder.whole(architecture))
    raw = safetensors_of({name: encoder.tensors[name] for name in sorted(encoder.tensors)})
    files = {CARD: written(card), WEIGHTS: raw, **encoder.files}
    return write_folder(folder, files, overwrite=overwrite)


@checks(factories=mapping)
@one_thread()
def load(
    folder: str | Path,
    *,
    factories: Factories | None = None,
    device: str | torch.device = "cpu",
) -> Any:
    """Load what `save` wrote; its predictions are the same to the last bit on the same machine.

    Every file is compared with the manifest before anything else is read of it. Nothing in the
    folder is executed, and only classes of the library are made, and what the factories return.

    :param factories: as for `save`.
    :param device: where models are put.
    :raises FileNotFoundError: if there is no such folder.
    :raises DamagedFile: if anything in the folder is not as it was saved, or fits no more.
    :raises ValueError: if a factory is missing or makes something else.
    """
    from safetensors.torch import load as tensors_of

    folder = path_of("folder", folder)
    try:
        target = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"device={shown(device)} is not a device of torch: {error}") from error
    contents = read_folder(folder)
    card = _card(folder, contents)
    with undamaged(f"{folder}: {WEIGHTS} is no safetensors file:"):
        # Into memory of their own, aligned as torch aligns it.
        stored = tensors_of(contents.pop(WEIGHTS))
        tensors = {name: value.clone() for name, value in stored.items()}
    with undamaged(f"{folder}: {CARD} and {WEIGHTS} do not fit together:", MissingPart):
        return Decoder(tensors, contents, factories or {}, target).whole(card["architecture"])


def read_card(folder: str | Path) -> dict[str, Any]:
    """The card of a folder: class, versions, metrics, architecture.

    :raises DamagedFile: if the folder is not as it was saved.
    """
    return _card(folder, read_folder(path_of("folder", folder)))


def _card(folder: str | Path, contents: dict[str, bytes]) -> dict[str, Any]:
    """Takes the card out of the contents of a folder."""
    with undamaged(f"{folder}: {CARD}"):
        card: dict[str, Any] = read(contents.pop(CARD))
        if {key: type(value) for key, value in card.items()} != _OF_CARD:
            raise ValueError(f"must have just {', '.join(_OF_CARD)}, each of its type")
        if card["class"] != card["architecture"]["type"]:
            raise ValueError("names another class than its architecture")
    return card


def _check_same(saved: Any, again: Any) -> None:
    """Refuse a module whose parts were exchanged after it was made."""
    if not isinstance(saved, nn.Module):
        return
    kinds = [{k: type(m) for k, m in part.named_modules()} for part in (saved, again)]
    for name in kinds[0].keys() | kinds[1].keys():
        mine, made = (kind.get(name, type(None)) for kind in kinds)
        if mine is not made:
            raise ValueError(
                f"{name} is a {mine.__name__}, but the arguments that the {type(saved).__name__} "
                f"was made with give a {made.__name__}: pass the part to its constructor"
            )
