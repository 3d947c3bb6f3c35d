"""A folder of files with a manifest: written as a whole, and read only if every byte is right."""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from pyro_gcm._utils import archive, writing
from pyro_gcm._utils.archive import DamagedFile
from pyro_gcm._utils.plain_data import read
from pyro_gcm._utils.writing import left_overs, temporary, told_of

MANIFEST = "manifest.json"
#: What file managers, notebooks and disks leave in a folder.
_LEFT_BY_OTHERS = re.compile(
    r"\.DS_Store|\._.*|\.localized|Thumbs\.db|[Dd]esktop\.ini|\.directory|\.ipynb_checkpoints"
    r"|@eaDir|lost\+found|\.Trash-\d+|\.nfs[0-9a-f]+|\.fuse_hidden.*"
)
#: Bytes that `check_place` writes.
_ROOM = 1 << 20
#: A name that no saved file has, and that counts as left by others.
_NEXT = "._next"
#: How often a folder is read whose files are replaced meanwhile, and the seconds in between.
_TIMES, _PAUSE = 50, 0.01


def write_folder(folder: str | Path, files: Mapping[str, bytes], *, overwrite: bool) -> Path:
    """Write files and their manifest into a new folder, and move that to its place.

    Where there is a folder already, it stays, with its permissions, and its files are exchanged: it
    may be a mount point, the working folder, or in a folder that cannot be written to. Whenever the
    process is killed, the files of before can be read, or the new ones.

    :param files: contents by name.
    :param overwrite: whether a folder that was saved before may be replaced.
    :returns: the folder.
    :raises FileExistsError: if there is something else, or something saved without `overwrite`.
    :raises OSError: if it cannot be written; the folder is then as it was.
    """
    with told_of(folder):
        target = Path(os.path.realpath(folder))
    check_replaceable(target, overwrite)
    contents = {**files, MANIFEST: archive.manifest_of(files)}
    with told_of(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        writing.clear(target.parent, target)
        if target.exists() or not _made(target, contents):
            _replace(target, contents, overwrite)
    with suppress(OSError):  # the folder is there
        writing.sync_folder(target.parent)
    return target


def check_place(folder: str | Path) -> None:
    """Write where `write_folder` would, and delete that again.

    :raises OSError: if nothing, or not enough for a small model, can be written there.
    """
    with told_of(folder):
        target = home = Path(os.path.realpath(folder))
        while not home.exists():
            home = home.parent
        with temporary(target, home) as new:
            _fill(new, {MANIFEST: bytes(_ROOM)}, target)


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


def _made(target: Path, contents: Mapping[str, bytes]) -> bool:
    """Make the folder; False if it cannot be, as where another process has made it meanwhile."""
    with temporary(target, target.parent) as new:
        _fill(new, contents, target)
        with suppress(OSError):
            new.rename(target)
        return not new.exists()


def _replace(target: Path, contents: Mapping[str, bytes], overwrite: bool) -> None:
    """Exchange the files of a folder, one process after the other."""
    with writing.held(target):
        check_replaceable(target, overwrite)
        with temporary(target, target) as new, temporary(target, target) as old:
            _fill(new, contents, target)
            saved = _names(target)
            for name in saved:
                _link(target / name, old / name)
            writing.sync_folder(old)
            try:
                _exchange(target, new, contents, saved)
            except BaseException:
                _exchange(target, old, saved, contents)
                raise
            writing.sync_folder(target)
        writing.clear(target)


def _exchange(target: Path, source: Path, come: Collection[str], go: Collection[str]) -> None:
    """Give a folder files of another one, which can be read until all are there, for its own."""
    for name in come:
        (source / _NEXT).unlink(missing_ok=True)  # it stays where it is what it should replace
        _link(source / name, source / _NEXT)
        os.replace(source / _NEXT, target / name)
    for name in {*go} - {*come}:
        (target / name).unlink(missing_ok=True)


def _fill(new: Path, contents: Mapping[str, bytes], target: Path) -> None:
    for name, content in contents.items():
        writing.write_synced(new / name, content, like=target / name)
    writing.sync_folder(new)


def _link(path: Path, other: Path) -> None:
    """Let a file have another name, or copy it where the disk has no links."""
    try:
        os.link(path, other)
    except OSError:
        shutil.copy2(path, other)


def _names(folder: Path) -> set[str]:
    """The files of a folder, without those of other programs and of saves that were killed."""
    left = writing.LEFT_OVER, _LEFT_BY_OTHERS
    return {n for n in os.listdir(folder) if not any(known.fullmatch(n) for known in left)}


def _saved_names(folder: Path) -> set[str]:
    """Names of the files that are or were saved there, as far as a manifest can be read."""
    names = {MANIFEST, "card.json", "weights.safetensors"}
    for place in (folder, *left_overs(folder)):
        with suppress(OSError, ValueError, TypeError, KeyError):
            names |= set(filter(archive.is_name, read((place / MANIFEST).read_bytes())["files"]))
    return names


def read_folder(folder: str | Path) -> dict[str, bytes]:
    """The contents of the files in a folder, by name, without its manifest.

    They are of one save, also while another process saves there, or puts another folder there.
    Where a save was killed while it exchanged the files, those of before or the new ones are read,
    with a warning.

    :raises FileNotFoundError: if there is no such folder.
    :raises DamagedFile: if a file is missing, is not the one that was written, or was added.
    """
    root, before = Path(folder), 0
    for _ in range(_TIMES):
        now = -1
        try:
            with suppress(OSError):
                now = root.stat().st_mtime_ns
            return _contents(root)
        except (DamagedFile, FileNotFoundError) as error:
            damage = error
        if now == before:  # nobody is replacing the files
            break
        before = now
        time.sleep(_PAUSE)
    for path in left_overs(root) if root.is_dir() else ():
        with suppress(DamagedFile, FileNotFoundError):
            contents = _contents(path)
            warnings.warn(
                f"{root}: a save was killed while it exchanged the files, whole ones are read",
                stacklevel=2,
            )
            return contents
    raise damage


def _contents(root: Path) -> dict[str, bytes]:
    if not root.is_dir():
        raise FileNotFoundError(f"folder {root} does not exist, or is no folder")
    with archive.undamaged(f"{root}: {MANIFEST}"):
        files = archive.listed(_read(root / MANIFEST))
    for name in sorted(_names(root) - files.keys() - {MANIFEST}):
        raise DamagedFile(f"{root}: {name} is not in the manifest: it was not saved there")
    contents = {}
    for name, entry in files.items():
        with archive.undamaged(f"{root}: {name}"):
            contents[name] = _read(root / name)
            archive.check_content(contents[name], entry)
    return contents


def _read(path: Path) -> bytes:
    """The content of what must be a file, and no link to one."""
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            return path.read_bytes()
    except FileNotFoundError:
        raise ValueError("is missing") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    raise ValueError("is no regular file, but a link or a folder")
