"""One module for each data set that ``pyro_gcm.data.load`` finds by the name of the module.

A module defines ``default()`` and ``published()``, which return the two variants.
"""
