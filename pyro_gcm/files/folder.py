"""A folder of files with a manifest: written as a whole, and read only if every byte is right."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyro_gcm.files import manifest, strict_json
from pyro_gcm.files.writing import sync_folder, told_of, write_synced

MANIFEST = "manifest.json"
#: What file managers, notebooks, disks and a save that was killed leave in a folder.
_LEFT_BY_OTHERS = re.compile(
    r"\.DS_Store|\._.*|\.localized|Thumbs\.db|[Dd]esktop\.ini|\.directory|\.ipynb_checkpoints"
    r"|@eaDir|lost\+found|\.Trash-\d+|\.nfs[0-9a-f]+|\.fuse_hidden.*|\..*\.(partial|old)"
)
#: Bytes that `check_place` writes.
_ROOM = 1 << 20


class DamagedFolder(ValueError):
    """A folder is not what `pyro_gcm.save` wrote: the message names the file and what is wrong."""


def is_file_name(name: str) -> bool:
    """Whether a name stays within its folder."""
    return manifest.is_name(name) and name != MANIFEST


def write_folder(folder: str | Path, files: Mapping[str, bytes], *, overwrite: bool) -> Path:
    """Write files and their manifest into a new folder, and move that to its place.

    Where there is a folder already, it stays, with its permissions, and its files are exchanged: it
    may be a mount point, the working folder, or in a folder that cannot be written to.

    :param files: contents by name.
    :param overwrite: whether a folder that was saved before may be replaced.
    :returns: the folder.
    :raises FileExistsError: if there is something else, or something saved without `overwrite`.
    :raises OSError: if it cannot be written; the folder is then as it was.
    """
    with told_of(folder):
        target = Path(os.path.realpath(folder))
    check_replaceable(target, overwrite)
    with told_of(folder):
        home = target if target.exists() else target.parent
        home.mkdir(parents=True, exist_ok=True)
        new = home / _beside(target, "partial")
        new.mkdir()
        try:
            for name, content in {**files, MANIFEST: manifest.manifest_of(files)}.items():
                write_synced(new / name, content, like=target / name)
            sync_folder(new)
            if home == target:
                _exchange(target, new, [*files, MANIFEST])
            else:
                new.rename(target)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    with suppress(OSError):  # the folder is there
        sync_folder(home)
    return target


def check_place(folder: str | Path) -> None:
    """Write where `write_folder` would, and delete that again.

    :raises OSError: if nothing, or not enough for a small model, can be written there.
    """
    with told_of(folder):
        target = home = Path(os.path.realpath(folder))
        while not home.exists():
            home = home.parent
        new = home / _beside(target, "partial")
        new.mkdir()
        try:
            write_synced(new / MANIFEST, bytes(_ROOM))
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _beside(target: Path, ending: str) -> str:
    """A name that nothing has."""
    return f".{target.name}.{secrets.token_hex(4)}.{ending}"


def _exchange(target: Path, new: Path, names: Sequence[str]) -> None:
    """Move files up from a folder inside; those that were saved before go away, or come back."""
    old = target / _beside(target, "old")
    old.mkdir()
    try:
        for name in _names(target) & _saved_names(target):
            (target / name).rename(old / name)
        for name in names:
            (new / name).rename(target / name)
    except BaseException:
        for name in names:
            if not (new / name).exists():
                (target / name).unlink(missing_ok=True)
        for name in os.listdir(old):
            (old / name).rename(target / name)
        old.rmdir()
        raise
    for done in (new, old):
        shutil.rmtree(done, ignore_errors=True)


def check_replaceable(target: Path, overwrite: bool) -> None:
    """Refuse a folder with other files, or with something saved if that is not to be replaced.

    :raises FileExistsError: saying which.
    """
    if not target.exists():
        return
    if not target.is_dir():
        raise FileExistsError(f"folder must be a folder, but {target} is a file")
    present = _names(target)
    foreign = sorted(present - _saved_names(target))
    if foreign:
        raise FileExistsError(
            f"folder {target} has files that save did not write, beside which nothing is saved: "
            f"{', '.join(foreign[:5])}"
        )
    if present and not overwrite:
        raise FileExistsError(
            f"folder {target} exists and is not empty: pass overwrite=True to replace it"
        )


def _names(folder: Path) -> set[str]:
    """What is in a folder, but for what others leave there."""
    return {name for name in os.listdir(folder) if not _LEFT_BY_OTHERS.fullmatch(name)}


def _saved_names(folder: Path) -> set[str]:
    """Names of the files that were saved there, as far as the manifest can be read."""
    names = {MANIFEST}
    try:
        listed = strict_json.read((folder / MANIFEST).read_bytes())["files"]
        return names | {name for name in listed if is_file_name(name)}
    except (OSError, ValueError, TypeError, KeyError):
        return names | {"card.json", "weights.safetensors"}


def read_folder(folder: str | Path) -> dict[str, bytes]:
    """The contents of the files in a folder, by name, without its manifest.

    :raises FileNotFoundError: if there is no such folder.
    :raises DamagedFolder: if a file is missing, is not the one that was written, or was added.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"folder {root} does not exist, or is no folder")
    listed = _listed(root)
    for name in sorted(_names(root)):
        if name not in listed and name != MANIFEST:
            raise DamagedFolder(f"{root}: {name} is not in the manifest: it was not saved there")
    for name, entry in listed.items():
        size = _size(root, name)
        if size != entry["size"]:
            raise DamagedFolder(f"{root}: {name} has {size} bytes, but {entry['size']} were saved")
    contents = {}
    for name, entry in listed.items():
        contents[name] = raw = _content(root, name)
        try:
            manifest.check_content(name, raw, entry)
        except ValueError as error:
            raise DamagedFolder(f"{root}: {error}") from None
    return contents


def _listed(root: Path) -> dict[str, Any]:
    """The entries of the manifest."""
    where = f"{root}: {MANIFEST}"
    if _size(root, MANIFEST) > manifest.LARGEST:
        raise DamagedFolder(f"{where} is too large for a manifest")
    try:
        files = manifest.read_manifest(_content(root, MANIFEST))
    except ValueError as error:
        raise DamagedFolder(f"{where} {error}") from error
    for name in files:
        if not is_file_name(name):
            raise DamagedFolder(f"{where} lists {name!r}, which is no name of a saved file")
    return files


def _size(root: Path, name: str) -> int:
    """Bytes of a file, which must be a file and no link to one."""
    try:
        status = os.lstat(root / name)
    except OSError as error:
        raise DamagedFolder(f"{root}: {name} is missing") from error
    if not stat.S_ISREG(status.st_mode):
        raise DamagedFolder(f"{root}: {name} is no regular file, but a link or a folder")
    return status.st_size


def _content(root: Path, name: str) -> bytes:
    """What a file has, opened without following a link."""
    try:
        handle = os.open(root / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | _BINARY)
        with os.fdopen(handle, "rb") as file:
            return file.read()
    except OSError as error:
        raise DamagedFolder(f"{root}: {name} cannot be read: {error.strerror}") from error


_BINARY = getattr(os, "O_BINARY", 0)
