"""An object as a tree of plain data and tensors, and back.

A node of the tree is one of these, and in arguments of a constructor also plain data::

    {"tensor": name}                             a tensor
    {"type": name, "data": {}, "parts": {}}      an object with `saved_state`
    {"type": name, "arguments": {}}              a module
    {"factory": path, "class": name}             a module from outside
    {"same_as": path}                            a part that came before
    {"mapping": {}}, {"distribution": name}

The node of a module that is no argument also has its "attributes" and names of "frozen" parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import CLASSES, made_again, recipe_of
from pyro_gcm._utils.torch_state import exclusively
from pyro_gcm.distributions.families import name_of_family, resolve_cost_family
from pyro_gcm.models.base import OrderEventModel

Factories = Mapping[str, Callable[[], Any]]


class Encoder:
    """Collects the tensors of the objects that it encodes.

    :param factories: names of the arguments that `load` is given a factory for.
    """

    def __init__(self, factories: Mapping[str, Any]) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._factories = factories
        self._paths: dict[int, str] = {}  # of the parts so far

    def part(self, value: Any, path: str) -> dict[str, Any]:
        """A module, an object with `saved_state` or a tensor as a node of the tree.

        :param path: its name in the folder; empty for the whole.
        :raises TypeError: for anything else, and for a module from outside without a factory.
        """
        if path and isinstance(value, Tensor):
            return {"tensor": self._kept(value, path)}
        name = next((known for known, cls in CLASSES.items() if cls is type(value)), None)
        if name is not None and hasattr(value, "saved_state"):
            data, parts = value.saved_state()
            data = plain(data, path or "data")
            parts = {k: self.part(item, _inside(path, k)) for k, item in parts.items()}
            return {"type": name, "data": data, "parts": parts}
        if not isinstance(value, nn.Module):
            raise _refusal(path, value)
        node: dict[str, Any] = self._argument(value, path)
        if "same_as" not in node:
            for key, entry in value.state_dict().items():
                self._kept(entry, _inside(path, key))
            node["frozen"] = [k for k, p in value.named_parameters() if not p.requires_grad]
            attributes: Any = getattr(value, "saved_attributes", None)
            if attributes is not None:
                node["attributes"] = plain(attributes(), "attributes")
        return node

    def _kept(self, value: Tensor, path: str) -> str:
        """The name of a tensor, of which a copy is kept on the CPU."""
        kept = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        self.tensors[path] = kept
        return path

    def _argument(self, value: Any, path: str) -> Any:
        """The plain form of an argument; the tensors of a module are those of its owner."""
        if id(value) in self._paths:
            return {"same_as": self._paths[id(value)]}
        recipe = recipe_of(value)
        if recipe is not None or path in self._factories:
            self._paths[id(value)] = path
        if path in self._factories:
            return {"factory": path, "class": _class_name(value)}
        if isinstance(value, type):
            name = _class_name(value)
            known = name if getattr(dist, name, None) is value else name_of_family(value)
            if known is not None:
                return {"distribution": known}
        if recipe is not None or isinstance(value, Mapping):
            passed = value if recipe is None else recipe.arguments
            items = {k: plain(v, _inside(path, k), self._argument) for k, v in passed.items()}
            return (
                {"mapping": items} if recipe is None else {"type": recipe.name, "arguments": items}
            )
        if value is None or isinstance(value, str | Real | list | tuple):
            return NotImplemented
        raise _refusal(path, value)


class Decoder:
    """Makes objects from nodes of the tree that `Encoder` wrote.

    :param tensors: by name; every one of them must be asked for.
    :param factories: functions that return a module from outside, by the name of its argument.
    :param device: where modules are put.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], factories: Factories, device: torch.device
    ) -> None:
        self._left = {**tensors}
        self._factories = {**factories}
        self._device = device
        self._made: dict[str, Any] = {}

    def whole(self, node: Any) -> Any:
        """The object of the whole tree, with no trace in torch's global generator.

        A forged tree may raise other errors than these.

        :raises ValueError: if the tree has other modules than the tensors.
        :raises RuntimeError: for a tensor of another shape.
        :raises MissingPart: if a factory is missing, or makes something else.
        """
        with exclusively, torch.random.fork_rng(devices=[]):
            made = self.part(node, "")
        if self._left:
            raise ValueError(f"tensor {min(self._left)!r} belongs to nothing in it")
        if self._factories:
            name = min(self._factories)
            raise MissingPart(f"factories has {name!r}, but it holds no such argument from outside")
        return made

    def part(self, node: Any, path: str) -> Any:
        """The object of a node; see `Encoder.part`."""
        match node:
            case {"tensor": name}:
                return self._left.pop(name)
            case {"type": name, "data": data, "parts": parts}:
                made = {k: self.part(v, _inside(path, k)) for k, v in parts.items()}
                return _class(name).from_saved_state(data, made)
        module = self.argument(node, path)
        if "same_as" not in node:
            if isinstance(module, OrderEventModel):
                module.shared_sites()  # whose guide has tensors
            state = {key: self._left.pop(_inside(path, key)) for key in module.state_dict()}
            module.load_state_dict(state, assign=True)  # in the type in which they were saved
            if "attributes" in node:
                module.restore_attributes(node["attributes"])
            for name in node["frozen"]:
                module.get_parameter(name).requires_grad_(False)
        return module.to(self._device)

    def argument(self, node: Any, path: str) -> Any:
        """An argument of a constructor."""
        match node:
            case list():
                return [self.argument(item, f"{path}.{i}") for i, item in enumerate(node)]
            case {"mapping": items}:
                return {k: self.argument(v, _inside(path, k)) for k, v in items.items()}
            case {"distribution": name}:
                return _distribution(name)
            case {"same_as": other}:
                return self._made[other]
            case {"factory": _, "class": name}:
                made = self._from_factory(path, name)
            case {"type": name, "arguments": arguments}:
                passed = {k: self.argument(v, _inside(path, k)) for k, v in arguments.items()}
                if isinstance(arguments.get("cost_family"), str):
                    _distribution(arguments["cost_family"])
                made = made_again(_class(name), passed)
            case dict():
                raise ValueError(f"{path or 'the whole'} has the unknown keys {sorted(node)}")
            case _:
                return node
        self._made[path] = made
        return made

    def _from_factory(self, path: str, cls: Any) -> Any:
        if path not in self._factories:
            raise MissingPart(
                f"{path} is a {cls} from outside of the library: pass factories="
                f"{{{path!r}: make}}, where make() returns one"
            )
        try:
            made = self._factories.pop(path)()
        except Exception as error:
            raise MissingPart(f"factories[{path!r}] raised {error!r}") from error
        if _class_name(made) != cls:
            raise MissingPart(f"factories[{path!r}] must return a {cls}, got a {_class_name(made)}")
        return made


class MissingPart(ValueError):
    """`load` needs something from outside of the library that it was not given."""


def plain(
    value: Any, where: str, own: Callable[[Any, str], Any] = lambda *_: NotImplemented
) -> Any:
    """A value as JSON holds it: what numpy has as Python has it, tuples as lists.

    :param where: name of the value, for the error; those of its items follow after a dot.
    :param own: asked first about the value and each of its items, with its name: what stands for
        it, or NotImplemented.
    :raises TypeError: for a value that JSON does not have, and keys that are no strings.
    :raises ValueError: for numbers that are not finite.
    """
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    made = own(value, where)
    if made is not NotImplemented:
        return made
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} must have strings as keys, got {key!r}")
        return {key: plain(item, f"{where}.{key}", own) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}.{i}", own) for i, item in enumerate(value)]
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        if not math.isfinite(value):
            raise ValueError(
                f"{where} must be finite, got {value}: pass None, or the text {str(value)!r}"
            )
        return float(value)
    raise TypeError(
        f"{where} must be None, a boolean, number, string, list or dict, got {type(value).__name__}"
    )


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _class(name: str) -> Any:
    """The class that a name stands for, of those that are registered."""
    if name.startswith("estimators."):
        import pyro_gcm.estimators  # noqa: F401
    if name not in CLASSES:
        raise ValueError(f"{name!r} is a name that no class is registered as")
    return CLASSES[name]


def _class_name(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__


def _distribution(name: str) -> type:
    """A distribution of Pyro, or the one that a name was given to with `register_cost_family`."""
    cls = getattr(dist, name, None)
    if isinstance(cls, type) and issubclass(cls, torch.distributions.Distribution):
        return cls
    try:
        return resolve_cost_family(name)
    except ValueError as error:
        raise MissingPart(f"{error}; call register_cost_family before load") from error


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
