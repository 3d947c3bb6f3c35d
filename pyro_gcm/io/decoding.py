"""From what a folder holds of an object back to the object."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import made_again, registered
from pyro_gcm.distributions.families import resolve_cost_family
from pyro_gcm.models.story import OrderEventModel

#: Packages of the library whose classes have names there, imported when one is met.
_PACKAGES = ("encoders", "estimators", "models", "nets")


class Decoder:
    """Makes objects from nodes of the tree that `Encoder` wrote.

    :param tensors: by name; every one of them must be asked for.
    :param files: contents by name, likewise.
    :param factories: functions that return a module from outside, by the name of its argument.
    :param device: where modules are put.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        files: Mapping[str, bytes],
        factories: Mapping[str, Callable[[], Any]],
        device: torch.device,
    ) -> None:
        self._tensors, self._files, self._factories = dict(tensors), dict(files), factories
        self._device = device
        self._made: dict[str, Any] = {}
        self._called: set[str] = set()

    def whole(self, node: Any) -> Any:
        """The object of the whole tree.

        :raises ValueError: if the tree, the tensors and the files do not fit together, or if a
            factory is missing, or makes something else.
        """
        made = self.part(node, "")
        for kind, left in (("tensor", self._tensors), ("file", self._files)):
            if left:
                raise ValueError(f"{kind} {min(left)!r} belongs to nothing in it")
        unused = self._factories.keys() - self._called
        if unused:
            raise MissingPart(
                f"factories has {min(unused)!r}, but it holds no such argument from outside"
            )
        return made

    def part(self, node: Any, path: str) -> Any:
        """The object of a node; see `Encoder.part`."""
        kinds = _keys(node, path)
        if kinds == {"tensor"}:
            return self._taken("tensor", self._tensors, node["tensor"])
        if kinds == {"file"}:
            return self._taken("file", self._files, node["file"])
        if kinds == {"type", "data", "parts"}:
            return self._stateful(node, path)
        made = self.argument(node, path)
        if not isinstance(made, nn.Module):
            raise ValueError(f"{path or 'the whole'} is a {type(made).__name__}, and no module")
        if kinds != {"same_as"}:
            self._fill(made, path)
        for name in _list(node.get("frozen", [])):
            made.get_parameter(_text(name)).requires_grad_(False)
        self._restore_attributes(node, path)
        return made.to(self._device)

    def argument(self, node: Any, path: str) -> Any:
        """An argument of a constructor."""
        if isinstance(node, list):
            return [self.argument(item, f"{path}.{i}") for i, item in enumerate(node)]
        if not isinstance(node, dict):
            return node
        kinds = _keys(node, path) - {"attributes", "frozen"}
        beyond = path and f"{path}."
        if kinds == {"mapping"}:
            return {k: self.argument(v, beyond + k) for k, v in _dict(node["mapping"]).items()}
        if kinds == {"distribution"}:
            return _distribution(node["distribution"])
        if kinds == {"cost_family"}:
            return _cost_family(_text(node["cost_family"]))
        if kinds == {"same_as"}:
            return self._made[node["same_as"]]
        if kinds == {"factory", "class"}:
            made = self._from_factory(path, node["class"])
        elif kinds == {"type", "arguments"}:
            arguments = _dict(node["arguments"])
            passed = {k: self.argument(v, beyond + k) for k, v in arguments.items()}
            if isinstance(arguments.get("cost_family"), str):
                _cost_family(arguments["cost_family"])
            made = made_again(_class(node["type"], path), passed)
        else:
            raise ValueError(f"{path or 'the whole'} has the unknown keys {sorted(kinds)}")
        self._made[path] = made
        return made

    def _stateful(self, node: dict[str, Any], path: str) -> Any:
        beyond = path and f"{path}."
        cls: Any = _class(node["type"], path)
        if not hasattr(cls, "from_saved_state"):
            raise ValueError(f"{path or 'the whole'} is a {cls.__name__}, without from_saved_state")
        parts = {k: self.part(v, beyond + k) for k, v in _dict(node["parts"]).items()}
        return cls.from_saved_state(_dict(node["data"]), parts)

    def _from_factory(self, path: str, cls: Any) -> Any:
        if path not in self._factories:
            raise MissingPart(
                f"{path} is a {cls} from outside of the library: pass factories="
                f"{{{path!r}: make}}, where make() returns one"
            )
        self._called.add(path)
        try:
            made = self._factories[path]()
        except Exception as error:
            raise MissingPart(f"factories[{path!r}] raised {error!r}") from error
        name = made.__name__ if isinstance(made, type) else type(made).__name__
        if name != cls:
            raise MissingPart(f"factories[{path!r}] must return a {cls}, got a {name}")
        return made

    def _taken(self, kind: str, store: dict[str, Any], name: Any) -> Any:
        if not isinstance(name, str) or name not in store:
            raise ValueError(f"{kind} {name!r} is missing")
        return store.pop(name)

    def _fill(self, module: nn.Module, path: str) -> None:
        """Put the tensors of a module into it, in the type in which they were saved."""
        prefix = path and f"{path}."
        if isinstance(module, OrderEventModel):
            module.shared_sites()  # whose guide has tensors
        state = {}
        for name, like in module.state_dict().items():
            if name.endswith("_extra_state") and prefix + name not in self._tensors:
                continue  # of a folder from before it belonged to the state of this part
            value = self._taken("tensor", self._tensors, prefix + name)
            if value.shape != like.shape:
                raise ValueError(
                    f"tensor {prefix + name!r} has shape {tuple(value.shape)}, but must have "
                    f"{tuple(like.shape)}"
                )
            if value.dtype != like.dtype and not (
                value.is_floating_point() and like.is_floating_point()
            ):
                raise ValueError(
                    f"tensor {prefix + name!r} has dtype {value.dtype}, but must have {like.dtype}"
                )
            state[name] = value
        module.load_state_dict(state, assign=True)

    def _restore_attributes(self, node: Any, path: str) -> None:
        """Give modules what they had besides arguments and tensors, inner ones first."""
        if isinstance(node, list):
            for i, item in enumerate(node):
                self._restore_attributes(item, f"{path}.{i}")
        if isinstance(node, dict):
            for key, item in node.get("arguments", {}).items():
                self._restore_attributes(item, f"{path}.{key}" if path else key)
            if "attributes" in node:
                self._made[path].restore_attributes(_dict(node["attributes"]))


class MissingPart(ValueError):
    """`load` needs something from outside of the library that it was not given."""


def _keys(node: Any, path: str) -> set[str]:
    if not isinstance(node, dict):
        raise ValueError(f"{path or 'the whole'} must be an object, got {type(node).__name__}")
    return set(node)


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"it must have an object in the place of a {type(value).__name__}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"it must have a list in the place of a {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"it must have a string in the place of a {type(value).__name__}")
    return value


def _class(name: Any, path: str) -> type:
    """The class that a name stands for, of those that are registered."""
    package = _text(name).partition(".")[0]
    if registered(name) is None and package in _PACKAGES:
        importlib.import_module(f"pyro_gcm.{package}")
    cls = registered(name)
    if cls is None:
        raise ValueError(f"{path or 'the whole'} is a {name!r}, which no class is registered as")
    return cls


def _cost_family(name: str) -> type:
    try:
        return resolve_cost_family(name)
    except ValueError as error:
        raise MissingPart(f"{error}; call register_cost_family before load") from error


def _distribution(name: Any) -> type:
    cls = getattr(dist, _text(name), None)
    if not isinstance(cls, type) or not issubclass(cls, torch.distributions.Distribution):
        raise ValueError(f"{name!r} is no distribution of Pyro")
    return cls
