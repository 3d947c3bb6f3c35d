"""`GCM(prior="members")`, the name that `MemberGCM` had in 0.2.0, for one release."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from pyro_gcm.nets.members import MemberEncoder


class NamesMembers:
    """What makes a `MemberGCM` of a `GCM` with prior "members"."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__signature__ = _signature(cls)  # type: ignore[attr-defined]

    def __new__(cls, *args: Any, prior: Any = None, **options: Any) -> Any:
        """A `MemberGCM` for prior "members", which was an option of this class until 0.2.0."""
        kind = cls.for_arguments({"prior": prior})
        if kind is not cls:
            message = "GCM(prior='members') is deprecated: use MemberGCM, from pyro_gcm.models"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        return super().__new__(kind)

    @classmethod
    def for_arguments(cls, arguments: Mapping[str, Any]) -> Any:
        """The class of models with these arguments: this one, or `MemberGCM`."""
        prior = arguments.get("prior")
        named = isinstance(prior, str) and prior == "members"
        if not (named or isinstance(prior, MemberEncoder)):
            return cls
        from pyro_gcm.models.members import MemberGCM

        if not issubclass(MemberGCM, cls):
            raise ValueError("prior='members' is a model of its own: derive from MemberGCM")
        return MemberGCM


def _signature(cls: Any) -> inspect.Signature:
    """That of the constructor, which `__new__` would hide."""
    signature = inspect.signature(cls.__init__)
    return signature.replace(parameters=list(signature.parameters.values())[1:])
