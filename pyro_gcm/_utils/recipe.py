"""How a part of the library is made again: its name, and the arguments of its constructor.

What `pyro_gcm.save` writes can name only the classes that are registered here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from torch import nn

Class = TypeVar("Class", bound=type)

#: Classes by the names that they have in a saved folder.
CLASSES: dict[str, type] = {"nets.Identity": nn.Identity}


class Recipe(NamedTuple):
    """The registered name of a class, and the arguments that its constructor was called with."""

    name: str
    arguments: Mapping[str, Any]


def register(name: str) -> Callable[[Class], Class]:
    """Decorator that gives a class its name in saved folders; see `pyro_gcm.io` for its methods.

    :raises ValueError: if the name belongs to another class.
    """

    def enter(cls: Class) -> Class:
        old = CLASSES.setdefault(name, cls)
        if (old.__module__, old.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"name={name!r} belongs to {old.__module__}.{old.__qualname__}")
        CLASSES[name] = cls
        return cls

    return enter


def recorded(name: str) -> Callable[[Class], Class]:
    """Decorator for modules that are made again from the arguments of their constructor.

    The arguments are kept as they were passed, with the defaults of the others; of a subclass
    nothing is kept.
    """

    def record(cls: Class) -> Class:
        construct: Any = cls.__init__  # type: ignore[misc]
        signature = inspect.signature(construct)

        @functools.wraps(construct)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            construct(self, *args, **kwargs)
            if type(self) is cls:
                bound = signature.bind(self, *args, **kwargs)
                bound.apply_defaults()  # which may be others in a later version
                _, *passed = bound.arguments.items()
                self.__dict__["_recipe"] = Recipe(name, {k: _copied(v) for k, v in passed})

        cls.__init__ = __init__  # type: ignore[misc]
        return register(name)(cls)

    return record


def _copied(value: Any) -> Any:
    """The value, apart from what its owner may change later."""
    if isinstance(value, list | tuple):
        return tuple(_copied(item) for item in value)
    return {k: _copied(v) for k, v in value.items()} if isinstance(value, dict) else value


def recipe_of(part: Any) -> Recipe | None:
    """How a part was made; None for one from outside of the library."""
    if type(part) is nn.Identity:
        return Recipe("nets.Identity", {})
    return getattr(part, "__dict__", {}).get("_recipe")


def made_again(cls: type, arguments: Mapping[str, Any]) -> Any:
    """An object of a recorded class from the arguments that a recipe has.

    :raises TypeError: for arguments that the constructor does not have.
    """
    signature = inspect.signature(cls)
    if unknown := arguments.keys() - signature.parameters.keys():
        raise TypeError(f"{cls.__name__} has no argument {min(unknown)!r}")
    bound = inspect.BoundArguments(signature, dict(arguments))
    return cls(*bound.args, **bound.kwargs)
