"""Bytes on a disk: written as a whole, and with a manifest read only if every bit is right."""
