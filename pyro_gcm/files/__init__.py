"""Bytes on a disk: written as a whole, with a manifest, and read only if every bit is right."""
