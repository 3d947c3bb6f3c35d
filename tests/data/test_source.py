"""A raw file is read from the folder or downloaded once, and always verified.

Downloads use pooch and HTTP, from a local server.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pooch
import pytest
from disks import full_disk

from pyro_gcm.data.source import RawFile, read_raw, unzip

CONTENT = b"1, 2\n3, 4\n" * 50
SHA256 = hashlib.sha256(CONTENT).hexdigest()
# MANIFEST is the output of `sha256sum a.csv b.csv | sha256sum` for these two files.
MEMBERS = {"a.csv": b"1\n", "b.csv": b"2\n"}
MANIFEST = "ffa316d1dfc28adc171ad727498624f20943b24bd0fc8f3bf6a3ffa9e227104c"
ZIP: dict[str, Any] = {"member": "table.csv"}
ARCHIVE: dict[str, Any] = {"sha256": MANIFEST, "archive": True}


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive with its members in the given order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return buffer.getvalue()


ZIPPED = archive({"table.csv": CONTENT})


def flipped(content: bytes, place: int) -> bytes:
    """The same bytes with one bit flipped.

    In ``ZIPPED``, place 45 is inside the compressed data, and place -71 is the version needed to
    extract it.
    """
    place %= len(content)
    return content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :]


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]


class Site(http.server.HTTPServer):
    """A web site with the files of a folder; ``asked`` lists the requested paths."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
        self.folder, self.url = folder, f"http://127.0.0.1:{self.server_port}"
        self.asked: list[str] = []

    def serve(self, url: str, content: bytes) -> None:
        (self.folder / url[1:]).write_bytes(content)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    """A site to download from, with an empty cache and no PYRO_GCM_DATA."""
    monkeypatch.delenv("PYRO_GCM_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    with Site(tmp_path / "site") as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.01,))
        thread.start()
        yield site
        site.shutdown()
        thread.join()


def raw(site: Site, url: str = "/file", **options: Any) -> RawFile:
    usual = {"path": "toy/table.csv", "sha256": SHA256}
    return RawFile(url=f"{site.url}{url}", **{**usual, **options})


def cached(tmp_path: Path) -> list[str]:
    """The files in the cache."""
    cache = tmp_path / "cache" / "pyro_gcm"
    return sorted(p.relative_to(cache).as_posix() for p in cache.rglob("*") if p.is_file())


def test_file_is_downloaded_once(site: Site, tmp_path: Path) -> None:
    other_order = archive(dict(reversed(MEMBERS.items())), zipfile.ZIP_STORED)
    for number, (url, served, options) in enumerate(
        [
            ("/some+file", CONTENT, {}),
            ("/some+file", ZIPPED, ZIP),
            ("/table.csv.gz", gzip.compress(CONTENT), {}),
            ("/both", archive(MEMBERS), ARCHIVE),
            ("/both", other_order, ARCHIVE),  # and another compression
            ("/file", b"anything", {"sha256": None}),
        ]
    ):
        site.serve(url, served)
        file = raw(site, url, path=f"toy{number}/table.csv", **options)
        site.asked.clear()
        wanted = served if options.keys() & {"archive", "sha256"} else CONTENT
        assert read_raw(file) == read_raw(file) == wanted
        if "archive" in options:
            assert list(unzip(wanted, "toy").items()) == list(MEMBERS.items())  # sorted
        assert site.asked == [url]
        assert f"toy{number}{url}" in cached(tmp_path)
        if file.sha256:  # the copy is verified at each call
            (tmp_path / f"cache/pyro_gcm/toy{number}{url}").write_bytes(b"bad")
            with pytest.raises(ValueError, match="removed, the next call downloads it again"):
                read_raw(file)
            assert read_raw(file) == wanted


def test_damaged_download_is_refused_and_removed(site: Site, tmp_path: Path) -> None:
    for url, served, options, message in (
        ("/file", CONTENT[:-1], {}, rf"has sha256 \w+, expected {SHA256} for toy/table.csv"),
        ("/cut.gz", gzip.compress(CONTENT)[:-9], {}, "is not a complete gzip file"),
        ("/file", archive({"table.csv": CONTENT[:-1]}), ZIP, rf"has sha256 \w+, expected {SHA256}"),
        ("/file", ZIPPED[:-30], ZIP, "is not a complete zip file"),
        ("/file", flipped(ZIPPED, 45), ZIP, "is not a complete zip file"),
        ("/file", flipped(ZIPPED, -71), ZIP, "not a complete zip file: zip file version"),
        ("/file", archive({"other.csv": CONTENT}), ZIP, "has no member 'table.csv'"),
        ("/file", archive({"a.csv": b"2\n", "b.csv": b"1\n"}), ARCHIVE, f"expected {MANIFEST}"),
        ("/file", archive({"a.csv": b"1\n", "c.csv": b"2\n"}), ARCHIVE, f"expected {MANIFEST}"),
        ("/file", archive({"a.csv": b"1\n"}), ARCHIVE, f"expected {MANIFEST}"),
        ("/file", archive(MEMBERS)[:-30], ARCHIVE, "is not a complete zip file"),
    ):
        site.serve(url, served)
        with pytest.raises(ValueError, match=f"{message}.* removed, the next call downloads it"):
            read_raw(raw(site, url, **options))
        assert cached(tmp_path) == []


def test_failed_download_names_the_source_and_the_alternative(site: Site, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"/gone .*set PYRO_GCM_DATA to a folder that contains toy/"):
        read_raw(raw(site, "/gone"))
    site.serve("/file", CONTENT)
    with full_disk(), pytest.raises(OSError, match=r"/file to .*toy \(.*File too large"):
        read_raw(raw(site))
    assert cached(tmp_path) == []
    assert read_raw(raw(site)) == CONTENT
    (tmp_path / "cache").rename(tmp_path / "moved")
    (tmp_path / "cache").write_bytes(b"a file")
    with pytest.raises(OSError, match=rf"/file to {tmp_path}/cache.*set PYRO_GCM_DATA to a folder"):
        read_raw(raw(site))


@pytest.mark.parametrize("suffix", ["", ".gz"], ids=["plain", "gzip"])
def test_folder_is_used_without_a_download_and_a_missing_file_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    (tmp_path / "toy").mkdir()
    stored = gzip.compress(CONTENT) if suffix else CONTENT
    (tmp_path / f"toy/table.csv{suffix}").write_bytes(stored)
    monkeypatch.setenv("PYRO_GCM_DATA", str(tmp_path))
    site.serve("/file", CONTENT)
    assert read_raw(raw(site)) == CONTENT
    missing = tmp_path / "toy" / "missing.csv"
    with pytest.raises(FileNotFoundError, match=f"{missing}.*PYRO_GCM_DATA"):
        read_raw(RawFile("toy/missing.csv", SHA256, f"{site.url}/file"))
    assert site.asked == []


def test_damaged_file_in_the_folder_is_refused_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy").mkdir()
    monkeypatch.setenv("PYRO_GCM_DATA", str(tmp_path))
    for name, stored, message in (
        ("table.csv.gz", gzip.compress(CONTENT[:-1]), rf"has sha256 \w+, expected {SHA256}"),
        ("table.csv.gz", CONTENT, "is not a complete gzip file"),
        ("table.csv", CONTENT[:-1], rf"has sha256 \w+, expected {SHA256}"),
    ):
        path = tmp_path / "toy" / name
        path.write_bytes(stored)
        with pytest.raises(ValueError, match=message):
            read_raw(RawFile("toy/table.csv", SHA256, "https://example.org/file"))
        assert path.read_bytes() == stored
