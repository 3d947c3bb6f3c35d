"""A folder of files with a manifest: written as a whole, and read only if every byte is right."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pyro_gcm._utils.interrupts import interruption_point, shielded
from pyro_gcm.files import manifest, strict_json
from pyro_gcm.files.left_overs import OLD, PARTIAL, clear, held, is_left_over, left_overs, temporary
from pyro_gcm.files.writing import sync_folder, told_of, write_synced

MANIFEST = "manifest.json"
#: What file managers, notebooks and disks leave in a folder.
_LEFT_BY_OTHERS = re.compile(
    r"\.DS_Store|\._.*|\.localized|Thumbs\.db|[Dd]esktop\.ini|\.directory|\.ipynb_checkpoints"
    r"|@eaDir|lost\+found|\.Trash-\d+|\.nfs[0-9a-f]+|\.fuse_hidden.*"
)
#: Bytes that `check_place` writes.
_ROOM = 1 << 20


def is_file_name(name: str) -> bool:
    """Whether a name stays within its folder."""
    return manifest.is_name(name) and name != MANIFEST


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
    contents = {**files, MANIFEST: manifest.manifest_of(files)}
    with told_of(folder), shielded():
        target.parent.mkdir(parents=True, exist_ok=True)
        clear(target.parent, PARTIAL, target)
        if target.exists() or not _made(target, contents):
            _replace(target, contents, overwrite)
    with suppress(OSError):  # the folder is there
        sync_folder(target.parent)
    return target


def check_place(folder: str | Path) -> None:
    """Write where `write_folder` would, and delete that again.

    :raises OSError: if nothing, or not enough for a small model, can be written there.
    """
    with told_of(folder):
        target = home = Path(os.path.realpath(folder))
        while not home.exists():
            home = home.parent
        with temporary(target, home, PARTIAL) as new:
            write_synced(new / MANIFEST, bytes(_ROOM))


def _made(target: Path, contents: Mapping[str, bytes]) -> bool:
    """Make the folder; False if another process has made it meanwhile."""
    with temporary(target, target.parent, PARTIAL) as new:
        _fill(new, contents, target)
        with suppress(OSError):
            new.rename(target)
            return True
        if not target.exists():
            new.rename(target)  # tells why it cannot be
    return False


def _replace(target: Path, contents: Mapping[str, bytes], overwrite: bool) -> None:
    """Exchange the files of a folder, one process after the other."""
    with held(target):
        check_replaceable(target, overwrite)
        with temporary(target, target, PARTIAL) as new, temporary(target, target, OLD) as old:
            _fill(new, contents, target)
            saved = _names(target) & _saved_names(target)
            for name in saved:
                _link(target / name, old / name)
            sync_folder(old)
            try:
                for name in contents:
                    os.replace(new / name, target / name)
                for name in saved - contents.keys():
                    (target / name).unlink()
            except BaseException:
                _put_back(target, new, old, contents)
                raise
            (old / MANIFEST).unlink(missing_ok=True)  # from here on it is not read any more
            sync_folder(target)
        for ending in (PARTIAL, OLD):
            clear(target, ending)


def _put_back(target: Path, new: Path, old: Path, contents: Mapping[str, bytes]) -> None:
    """Give a folder its files of before, which stay in `old` until all are there."""
    saved = os.listdir(old)
    for name in contents.keys() - saved:
        (target / name).unlink(missing_ok=True)
    for name in saved:
        (new / name).unlink(missing_ok=True)
        _link(old / name, new / name)
        os.replace(new / name, target / name)


def _fill(new: Path, contents: Mapping[str, bytes], target: Path) -> None:
    for name, content in contents.items():
        interruption_point()
        write_synced(new / name, content, like=target / name)
    sync_folder(new)
    interruption_point()


def _link(path: Path, other: Path) -> None:
    """Let a file have another name, or copy it where the disk has no links."""
    try:
        os.link(path, other)
    except OSError:
        shutil.copy2(path, other)


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


def is_foreign(name: str) -> bool:
    """Whether neither others, such as file managers, nor a save that was killed leave a name."""
    return not is_left_over(name) and not _LEFT_BY_OTHERS.fullmatch(name)


def _names(folder: Path) -> set[str]:
    """What is in a folder, but for what others leave there."""
    return set(filter(is_foreign, os.listdir(folder)))


def _saved_names(folder: Path) -> set[str]:
    """Names of the files that were saved there, as far as a manifest can be read."""
    names = {MANIFEST}
    for place in (folder, *left_overs(folder, OLD), *left_overs(folder, PARTIAL)):
        try:
            listed = strict_json.read((place / MANIFEST).read_bytes())["files"]
            names |= {name for name in listed if is_file_name(name)}
        except (OSError, ValueError, TypeError, KeyError):
            names |= {"card.json", "weights.safetensors"}
    return names
