"""The files of a saved folder, read while others may replace them."""

from __future__ import annotations

import os
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pyro_gcm.files import manifest
from pyro_gcm.files.damaged import DamagedFile
from pyro_gcm.files.folder import MANIFEST, is_file_name, is_foreign
from pyro_gcm.files.left_overs import OLD, left_overs

#: How often a folder is read whose files are replaced meanwhile, and the seconds in between.
_TIMES, _PAUSE = 50, 0.01
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")
)


def read_folder(folder: str | Path) -> dict[str, bytes]:
    """The contents of the files in a folder, by name, without its manifest.

    They are of one save, also while another process saves there, or puts another folder there.
    Where a save was killed while it replaced the files, those of before are read, with a warning.

    :raises FileNotFoundError: if there is no such folder.
    :raises DamagedFile: if a file is missing, is not the one that was written, or was added.
    """
    root, before = Path(folder), None
    for _ in range(_TIMES):
        now: tuple[int, ...] = ()
        try:
            with _opened(root) as place:
                now = place.state()
                return place.contents()
        except (DamagedFile, FileNotFoundError) as error:
            damage = error
        if now == before:
            break
        before = now
        time.sleep(_PAUSE)
    for path in left_overs(root, OLD) if now else ():
        try:
            with _opened(path) as place:
                contents = place.contents()
        except (DamagedFile, FileNotFoundError):
            continue
        warnings.warn(
            f"{root}: a save was killed while it replaced the files, those of before are read",
            stacklevel=2,
        )
        return contents
    raise damage


@contextmanager
def _opened(root: Path) -> Iterator[_Place]:
    """A folder, which is opened once where the system can; another may come to its path.

    :raises FileNotFoundError: if there is none.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"folder {root} does not exist, or is no folder")
    if os.open not in os.supports_dir_fd or os.listdir not in os.supports_fd:
        yield _Place(root, None)
        return
    try:
        handle = os.open(root, os.O_RDONLY)
    except OSError as error:
        raise DamagedFile(f"{root}: the folder cannot be read: {error.strerror}") from error
    try:
        yield _Place(root, handle)
    finally:
        os.close(handle)


class _Place:
    """A folder.

    :param root: its path.
    :param handle: of the folder, or None to find it by its path.
    """

    def __init__(self, root: Path, handle: int | None) -> None:
        self._root, self._handle = root, handle

    def state(self) -> tuple[int, ...]:
        """What changes when files are replaced."""
        status = os.stat(self._root if self._handle is None else self._handle)
        return status.st_dev, status.st_ino, status.st_mtime_ns

    def contents(self) -> dict[str, bytes]:
        """As `read_folder`."""
        with ExitStack() as files:
            listed = self._listed()
            opened = {name: files.enter_context(self._open(name)) for name in sorted(listed)}
            present = os.listdir(self._root if self._handle is None else self._handle)
            for name in sorted(filter(is_foreign, present)):
                if name not in listed and name != MANIFEST:
                    raise DamagedFile(
                        f"{self._root}: {name} is not in the manifest: it was not saved there"
                    )
            for name, entry in listed.items():
                size = os.fstat(opened[name].fileno()).st_size
                if size != entry["size"]:
                    raise DamagedFile(
                        f"{self._root}: {name} has {size} bytes, but {entry['size']} were saved"
                    )
            contents = {}
            for name, entry in listed.items():
                contents[name] = raw = self._read(name, opened[name])
                try:
                    manifest.check_content(name, raw, entry)
                except ValueError as error:
                    raise DamagedFile(f"{self._root}: {error}") from None
        return contents

    def _listed(self) -> dict[str, Any]:
        """The entries of the manifest."""
        where = f"{self._root}: {MANIFEST}"
        with self._open(MANIFEST) as file:
            if os.fstat(file.fileno()).st_size > manifest.LARGEST:
                raise DamagedFile(f"{where} is too large for a manifest")
            raw = self._read(MANIFEST, file)
        try:
            files = manifest.read_manifest(raw)
        except ValueError as error:
            raise DamagedFile(f"{where} {error}") from error
        for name in files:
            if not is_file_name(name):
                raise DamagedFile(f"{where} lists {name!r}, which is no name of a saved file")
        return files

    def _open(self, name: str) -> BinaryIO:
        """A file, which must be a file and no link to one."""
        path = self._root / name if self._handle is None else name
        try:
            if stat.S_ISREG(os.stat(path, dir_fd=self._handle, follow_symlinks=False).st_mode):
                return os.fdopen(os.open(path, _FLAGS, dir_fd=self._handle), "rb")
        except FileNotFoundError as error:
            raise DamagedFile(f"{self._root}: {name} is missing") from error
        except OSError as error:
            raise DamagedFile(f"{self._root}: {name} cannot be read: {error.strerror}") from error
        raise DamagedFile(f"{self._root}: {name} is no regular file, but a link or a folder")

    def _read(self, name: str, file: BinaryIO) -> bytes:
        try:
            return file.read()
        except OSError as error:
            raise DamagedFile(f"{self._root}: {name} cannot be read: {error.strerror}") from error
