"""Models and estimators in a folder: `weights-<digest>.safetensors` and `card.json`, no pickle.

The card names the weights by their SHA-256 and has a digest of its own. It is replaced as the last
step of a save, so that the folder holds a whole model at any time.

`save` takes modules of the library, which record the arguments of their constructor, and objects of
any class that is registered by name and has two methods::

    @pyro_gcm.io.register("estimators.GCMClassifier")
    class GCMClassifier:
        def saved_state(self) -> tuple[dict, dict]:
            data = {"classes": [0, 1], "columns": ["age", "income"]}
            return data, {"model": self.model_, "centres": self.centres_}

        @classmethod
        def from_saved_state(cls, data: dict, parts: dict) -> "GCMClassifier":
            made = cls()
            made.model_, made.centres_ = parts["model"], parts["centres"]
            return made

`data` is plain: None, booleans, strings, finite numbers, lists, and dictionaries with strings as
keys, whose order is kept. Tuples come back as lists, numbers of numpy as those of Python. A part is
a tensor, a module of the library, or another object with these methods. A part from outside needs a
factory under its name. Both come back in the type that they had, tensors on the CPU and modules on
the device that `load` was given.

A module of your own that is made again from the arguments of its constructor, such as a subclass of
`GCM` with a story of its own, needs no methods: `@pyro_gcm.io.recorded("mine.GroupedGCM")`.

The name is what the folder keeps, so it must stay. A class is found once its module has been
imported; `load` imports those of the library itself.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import nn

from pyro_gcm._utils.files import DamagedFile, digest, undamaged, usable, write_file
from pyro_gcm._utils.recipe import recorded, register
from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm.io.tree import Decoder, Encoder, Factories, MissingPart, plain
from pyro_gcm.responses import Response

__all__ = ["DamagedFile", "MissingPart", "load", "read_card", "recorded", "register", "save"]

CARD = "card.json"
#: The number of the layout that is written and read.
FORMAT = 1
#: Names of weights, also of those that a save was writing when it was killed.
_WEIGHTS = re.compile(r"\.?weights-([0-9a-f]{16})\.safetensors(?:\.partial)?")
#: Names of what is not asked for: remains of a save, and what file managers and notebooks leave.
_NO_OBSTACLE = re.compile(r"\..*|Thumbs\.db|[Dd]esktop\.ini|weights-[0-9a-f]{16}\.safetensors")


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

    The folder has `card.json` (what it is, with the arguments it was made with, versions, how it
    was trained, digests) and `weights-<digest>.safetensors`. Whenever the process ends, there is a
    whole model: the old one until `card.json` is replaced, then the new one. Other files in the
    folder are left alone.

    :param factories: functions without arguments for the parts that come from outside of the
        library, by the argument's name, such as `{"cost_family": make}`, or `"guide.q_z"` for one
        inside another. `load` needs the same; the weights of what they return are saved.
    :param metrics: what is known of its quality, kept in the card, as JSON has it: None, or text,
        in the place of a number that is not finite.
    :param overwrite: replace the model that the folder has.
    :returns: the folder.
    :raises TypeError: for parts from outside without a factory, by their argument's name.
    :raises ValueError: for what could not be loaded again as it is.
    :raises FileExistsError: if the folder has a model and `overwrite` is not set, or other files
        and no model.
    :raises OSError: if it cannot be written; what was there is unchanged.

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

    folder = usable(folder)
    check_replaceable(folder, overwrite)
    if isinstance(response := getattr(model_or_estimator, "response", None), Response):
        response.check_whole()
    factories = factories or {}
    encoder = Encoder(factories)
    architecture = encoder.part(model_or_estimator, "")
    decoder = Decoder(encoder.tensors, factories, torch.device("cpu"))
    with undamaged("what is saved could not be loaded again:", MissingPart):
        again = decoder.whole(architecture)
    if isinstance(model_or_estimator, nn.Module):
        made = {name: type(part) for name, part in again.named_modules()}
        other = [n for n, p in model_or_estimator.named_modules() if type(p) is not made.get(n)]
        if other:
            raise ValueError(f"{other[0]} was exchanged: pass the part to the model's constructor")
    weights = safetensors_of({name: encoder.tensors[name] for name in sorted(encoder.tensors)})
    card = {
        "format": FORMAT,
        "class": architecture["type"],
        "versions": {
            "pyro_gcm": pyro_gcm.__version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "pyro": str(pyro.__version__),
        },
        "metrics": plain(metrics or {}, "metrics"),
        "architecture": architecture,
        "weights": digest(weights),
    }
    try:
        write_file(folder / _weights_name(card), weights)
        write_file(folder / CARD, signed(card))
    finally:  # there are the weights of the card alone
        current = (folder / CARD).read_bytes() if (folder / CARD).exists() else b""
        for path in folder.glob("*weights-*"):
            weights_of = _WEIGHTS.fullmatch(path.name)
            if weights_of and weights_of[1].encode() not in current:
                path.unlink(missing_ok=True)
    return folder


@one_thread()
def load(
    folder: str | Path,
    *,
    factories: Factories | None = None,
    device: str | torch.device = "cpu",
) -> Any:
    """Load what `save` wrote; its predictions are the same to the last bit on the same machine.

    Both files are compared with their digests before anything else is read of them. Nothing in the
    folder is executed, and only classes of the library are made, and what the factories return.

    :param factories: as for `save`.
    :param device: where models are put.
    :raises FileNotFoundError: if there is no such folder.
    :raises DamagedFile: if a file of the model is not as it was saved, or fits no more.
    :raises ValueError: if a factory is missing or makes something else.
    :raises RuntimeError: for a device that torch does not have.
    """
    from safetensors.torch import load as tensors_of

    folder, target = usable(folder), torch.device(device)
    card = read_card(folder)
    if not (folder / _weights_name(card)).exists():  # another process has replaced the card
        card = read_card(folder)
    with undamaged(f"{folder}: {_weights_name(card)}"):
        raw = (folder / _weights_name(card)).read_bytes()
        if digest(raw) != card["weights"]:
            raise ValueError("was changed: its SHA-256 is not that of the save")
        # Into memory of their own, aligned as torch aligns it.
        tensors = {name: value.clone() for name, value in tensors_of(raw).items()}
    with undamaged(f"{folder}: {CARD} does not fit the weights:", MissingPart):
        return Decoder(tensors, factories or {}, target).whole(card["architecture"])


def read_card(folder: str | Path) -> dict[str, Any]:
    """The card of a folder: class, versions, metrics, architecture.

    :raises FileNotFoundError: if there is no such folder.
    :raises DamagedFile: if the card is not as it was saved.
    """
    folder = usable(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"folder {folder} does not exist, or is no folder")
    with undamaged(f"{folder} has no model that can be read: {CARD}"):
        raw = (folder / CARD).read_bytes()
        card: dict[str, Any] = json.loads(raw)
        card.pop("sha256", None)
        if raw != signed(card):
            raise ValueError("was changed: it is not what a save writes, with its SHA-256")
        if card["format"] != FORMAT:
            raise ValueError(f"has format {card['format']}, and this version reads {FORMAT}")
    return card


def check_replaceable(folder: Path, overwrite: bool) -> None:
    """Refuse to replace a model without `overwrite`, and to save among other files.

    :raises FileExistsError: saying which.
    """
    names = {path.name for path in folder.glob("*") if not _NO_OBSTACLE.fullmatch(path.name)}
    if names and CARD not in names:
        raise FileExistsError(
            f"folder must be new or have a model, but {folder} has {', '.join(sorted(names)[:5])}"
        )
    if names and not overwrite:
        raise FileExistsError(f"{folder} has a model: overwrite=True (--overwrite) replaces it")


def _weights_name(card: dict[str, Any]) -> str:
    return f"weights-{card['weights'][:16]}.safetensors"


def signed(card: dict[str, Any]) -> bytes:
    """The bytes of a card, in one layout, with the SHA-256 of what they are without it."""

    def written(value: dict[str, Any]) -> bytes:
        return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode("ascii")

    return written({**card, "sha256": digest(written(card))})
