"""From an object to what a folder holds of it: a tree of plain data, tensors and further files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import name_of, recipe_of
from pyro_gcm.distributions.families import name_of_family
from pyro_gcm.files.folder import is_file_name
from pyro_gcm.files.strict_json import plain


class Encoder:
    """Collects the tensors and files of the objects that it encodes.

    :param factories: names of the arguments that `load` is given a factory for.
    """

    def __init__(self, factories: Mapping[str, Any]) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.files: dict[str, bytes] = {}
        self._factories = factories
        self._paths: dict[int, str] = {}  # of the modules so far

    def part(self, value: Any, path: str) -> dict[str, Any]:
        """A module, an object with `saved_state`, a tensor or bytes as a node of the tree.

        :param path: its name in the folder; empty for the whole.
        :raises TypeError: for anything else, and for a module from outside without a factory.
        """
        if path and isinstance(value, Tensor):
            self._add(path, value)
            return {"tensor": path}
        if path and isinstance(value, bytes):
            if not is_file_name(path):
                raise ValueError(f"{path!r} must be a name of letters, digits, '_', '.' and '-'")
            self.files[path] = value
            return {"file": path}
        if hasattr(value, "saved_state"):
            return self._stateful(value, path)
        if not isinstance(value, nn.Module):
            raise _refusal(path, value)
        node = self.argument(value, path)
        if "same_as" not in node:
            for name, entry in value.state_dict().items():
                self._add(f"{path}.{name}" if path else name, entry)
            frozen = [k for k, p in value.named_parameters() if not p.requires_grad]
            node |= {"frozen": frozen} if frozen else {}
        return node

    def argument(self, value: Any, path: str) -> Any:
        """An argument of a constructor; the tensors of a module are those of its owner."""
        if isinstance(value, nn.Module) and id(value) in self._paths:
            return {"same_as": self._paths[id(value)]}
        if path in self._factories:
            if isinstance(value, nn.Module):
                self._paths[id(value)] = path
            return {"factory": path, "class": _class_name(value)}
        if isinstance(value, type):
            return _distribution(value, path)
        recipe = recipe_of(value)
        if recipe is not None:
            self._paths[id(value)] = path
            beyond = path and f"{path}."
            arguments = {k: self.argument(v, beyond + k) for k, v in recipe.arguments.items()}
            node = {"type": recipe.name, "arguments": arguments}
            if hasattr(value, "saved_attributes"):
                node["attributes"] = plain(value.saved_attributes(), path or "attributes")
            return node
        if isinstance(value, list | tuple):
            return [self.argument(item, f"{path}.{i}") for i, item in enumerate(value)]
        if isinstance(value, Mapping):
            return {"mapping": {k: self.argument(v, f"{path}.{k}") for k, v in value.items()}}
        try:
            return plain(value, path)
        except TypeError:
            raise _refusal(path, value) from None

    def _stateful(self, value: Any, path: str) -> dict[str, Any]:
        """An object of a registered class with `saved_state`."""
        name = name_of(type(value))
        if name is None:
            raise TypeError(
                f"{path or 'model_or_estimator'} is a {type(value).__name__}, whose class is not "
                "registered: decorate it with pyro_gcm.io.register(name)"
            )
        data, parts = value.saved_state()
        beyond = path and f"{path}."
        return {
            "type": name,
            "data": plain(data, path or "data"),
            "parts": {key: self.part(item, beyond + key) for key, item in parts.items()},
        }

    def _add(self, name: str, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a tensor in a saved state, got {type(value).__name__}")
        if name in self.tensors:
            raise ValueError(f"{name} is the name of two tensors")
        if value.layout != torch.strided or value.is_meta or value.is_complex():
            raise TypeError(f"{name} must be a dense, real tensor with values")
        self.tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)


def _distribution(cls: type, path: str) -> dict[str, str]:
    """A class of distributions, by its name in Pyro or as a cost family."""
    if getattr(dist, cls.__name__, None) is cls and issubclass(
        cls, torch.distributions.Distribution
    ):
        return {"distribution": cls.__name__}
    name = name_of_family(cls)
    if name is None:
        raise _refusal(path, cls)
    return {"cost_family": name}


def _refusal(path: str, value: Any) -> TypeError:
    if not path:
        return TypeError(
            "model_or_estimator must be a model or an estimator of pyro_gcm, or an object of a "
            f"class registered with pyro_gcm.io.register, got {_class_name(value)}"
        )
    return TypeError(
        f"{path} is a {_class_name(value)} from outside of the library, which a file cannot hold: "
        f"pass factories={{{path!r}: make}} to save and to load, where make() returns one whose "
        "weights are then filled in"
    )


def _class_name(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__
