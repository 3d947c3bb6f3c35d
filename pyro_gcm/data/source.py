"""Where the bytes of a raw file come from: a local folder or a public source.

A file is identified by the SHA-256 digest of its unpacked content, whether it is a plain file, a
gzipped copy or a member of an archive, and an archive that is needed as a whole by the names and
contents of its members. The host may therefore repack an archive.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pyro_gcm._utils.files import DamagedFile, undamaged

VARIABLE = "PYRO_GCM_DATA"


@dataclass(frozen=True)
class RawFile:
    """One file of a public data set.

    :param path: its path in the folder PYRO_GCM_DATA, such as "adult/adult.data". A gzipped copy
        with ".gz" appended to this path is read as well.
    :param sha256: hexadecimal digest of its unpacked content; for an archive, that of the output of
        ``sha256sum *`` on its members, sorted by name. None if it is not known: nothing is verified
        then, and the loader has to check what it reads.
    :param url: its public source: the file itself, its gzipped copy if the URL ends in ".gz", or a
        zip archive that contains it.
    :param member: its name in that archive; None if the URL is the file itself.
    :param archive: whether the file itself is a zip archive, to be read with :func:`unzip`.
    """

    path: str
    sha256: str | None
    url: str
    member: str | None = None
    archive: bool = False


def read_raw(file: RawFile) -> bytes:
    """Return the unpacked, verified content of a raw file.

    If the environment variable PYRO_GCM_DATA is set and not empty, only that folder is read.
    Otherwise the file is downloaded once to pooch's cache folder for "pyro_gcm".

    :raises FileNotFoundError: if PYRO_GCM_DATA is set and its folder lacks the file.
    :raises DamagedFile: if the content is not the expected one. An invalid copy is removed from the
        cache, so that the next call downloads it again; a file in PYRO_GCM_DATA is left unchanged.
    :raises OSError: if the download fails.
    """
    folder = os.environ.get(VARIABLE)
    return _from_folder(file, Path(folder).expanduser()) if folder else _from_download(file)


def _from_folder(file: RawFile, folder: Path) -> bytes:
    plain = folder / file.path
    packed = plain.with_name(f"{plain.name}.gz")
    if plain.is_file():
        stored, content = plain, plain.read_bytes()
    elif packed.is_file():
        stored, content = packed, _gunzip(packed.read_bytes(), packed)
    else:
        raise FileNotFoundError(
            f"neither {plain} nor {packed} exists in {VARIABLE}={str(folder)!r}"
        )
    _verify(content, file, stored)
    return content


def _from_download(file: RawFile) -> bytes:
    import pooch

    cache = Path(pooch.os_cache("pyro_gcm")) / Path(file.path).parent
    try:
        # No hash here, since the host may repack an archive: _verify checks the member.
        stored = Path(
            pooch.retrieve(file.url, known_hash=None, fname=Path(file.url).name, path=cache)
        )
    except OSError as error:
        raise OSError(
            f"could not download {file.url} to {cache} ({error}); alternatively, set {VARIABLE} to "
            f"a folder that contains {file.path}"
        ) from error
    try:
        content = stored.read_bytes()
        if file.member is not None:
            members = unzip(content, stored)
            if file.member not in members:
                raise DamagedFile(f"{stored} has no member {file.member!r}")
            content = members[file.member]
        elif stored.suffix == ".gz":
            content = _gunzip(content, stored)
        _verify(content, file, stored)
    except ValueError as error:
        stored.unlink(missing_ok=True)
        raise DamagedFile(
            f"{error}; this copy of {file.url} was removed, the next call downloads it again"
        ) from error
    return content


def unzip(content: bytes, name: str | Path) -> dict[str, bytes]:
    """Return the members of a zip archive by name, sorted.

    :param content: the archive.
    :param name: the name of the archive in an error message.
    :raises DamagedFile: if it is not a complete zip file.
    """
    # A flipped bit can look like an unsupported version, a password or an invalid stream.
    with (
        undamaged(f"{name} is not a complete zip file:"),
        zipfile.ZipFile(io.BytesIO(content)) as archive,
    ):
        return {member: archive.read(member) for member in sorted(archive.namelist())}


def _gunzip(content: bytes, stored: Path) -> bytes:
    with undamaged(f"{stored} is not a complete gzip file:"):
        return gzip.decompress(content)


def _verify(content: bytes, file: RawFile, stored: Path) -> None:
    if file.sha256 is None:
        return
    if file.archive:
        members = unzip(content, stored)
        lines = (f"{hashlib.sha256(part).hexdigest()}  {name}\n" for name, part in members.items())
        content = "".join(lines).encode()
    got = hashlib.sha256(content).hexdigest()
    if got != file.sha256:
        raise DamagedFile(f"{stored} has sha256 {got}, expected {file.sha256} for {file.path}")
