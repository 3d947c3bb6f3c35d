"""Models and estimators in a folder: safetensors and JSON, nothing pickled.

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

from pyro_gcm._utils.files import DamagedFile
from pyro_gcm._utils.recipe import recorded, register
from pyro_gcm.io.saving import load, read_card, save
from pyro_gcm.io.tree import MissingPart

__all__ = [
    "DamagedFile",
    "MissingPart",
    "load",
    "read_card",
    "recorded",
    "register",
    "save",
]
