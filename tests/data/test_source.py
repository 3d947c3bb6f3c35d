"""A raw file is read from the folder or downloaded once, and always verified.

Downloads use pooch and HTTP, from a local server.
"""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pooch
import pytest

from pyro_gcm.data.source import RawFile, read_raw, unzip

CONTENT = b"1, 2\n3, 4\n" * 50
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive with its members in the given order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return buffer.getvalue()


def zipped(content: bytes, member: str = "table.csv") -> bytes:
    """An archive with one member."""
    return archive({member: content})


def flipped(content: bytes, place: int) -> bytes:
    """The same bytes with one bit flipped.

    In ``zipped``, place 45 is inside the compressed data, and place -71 is the version needed to
    extract it.
    """
    place %= len(content)
    return content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :]


class Site:
    """A web site with ``files`` by path; ``asked`` lists the requested paths."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                body = site.files.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    """A site to download from, with an empty cache and no PYRO_GCM_DATA."""
    monkeypatch.delenv("PYRO_GCM_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, args=(0.01,))
    thread.start()
    yield site
    site.server.shutdown()
    thread.join()
    site.server.server_close()


def cached(tmp_path: Path) -> list[str]:
    """The files in the cache."""
    cache = tmp_path / "cache" / "pyro_gcm"
    return sorted(p.relative_to(cache).as_posix() for p in cache.rglob("*") if p.is_file())


@pytest.mark.parametrize("member", [None, "table.csv"], ids=["plain", "zip"])
def test_download_happens_once(site: Site, tmp_path: Path, member: str | None) -> None:
    site.files["/some+file"] = CONTENT if member is None else zipped(CONTENT)
    file = RawFile("toy/table.csv", SHA256, f"{site.url}/some+file", member)
    assert read_raw(file) == CONTENT
    assert read_raw(file) == CONTENT
    assert site.asked == ["/some+file"]
    assert cached(tmp_path) == ["toy/some+file"]


@pytest.mark.parametrize(
    ("served", "member", "message"),
    [
        (CONTENT[:-1], None, rf"has sha256 \w+, expected {SHA256} for toy/table.csv"),
        (zipped(CONTENT[:-1]), "table.csv", rf"has sha256 \w+, expected {SHA256}"),
        (zipped(CONTENT)[:-30], "table.csv", "is not a complete zip file"),
        (flipped(zipped(CONTENT), 45), "table.csv", "is not a complete zip file"),
        (flipped(zipped(CONTENT), -71), "table.csv", r"not a complete zip file: zip file version"),
        (zipped(CONTENT, "other.csv"), "table.csv", "has no member 'table.csv'"),
    ],
    ids=["plain", "zip_member", "cut_zip", "bad_data", "bad_version", "wrong_zip"],
)
def test_damaged_download_is_refused_and_removed(
    site: Site, tmp_path: Path, served: bytes, member: str | None, message: str
) -> None:
    file = RawFile("toy/table.csv", SHA256, f"{site.url}/file", member)
    site.files["/file"] = served
    with pytest.raises(ValueError, match=message):
        read_raw(file)
    assert cached(tmp_path) == []
    site.files["/file"] = CONTENT if member is None else zipped(CONTENT)
    assert read_raw(file) == CONTENT


def test_damaged_copy_in_the_cache_is_refused_and_removed(site: Site, tmp_path: Path) -> None:
    site.files["/file"] = CONTENT
    file = RawFile("toy/table.csv", SHA256, f"{site.url}/file")
    read_raw(file)
    (tmp_path / "cache/pyro_gcm/toy/file").write_bytes(b"bad")
    with pytest.raises(ValueError, match="removed, the next call downloads it again"):
        read_raw(file)
    assert read_raw(file) == CONTENT


def test_failed_download_names_the_source_and_the_alternative(site: Site) -> None:
    file = RawFile("toy/table.csv", SHA256, f"{site.url}/gone")
    with pytest.raises(OSError, match=r"/gone .*set PYRO_GCM_DATA to a folder that contains toy/"):
        read_raw(file)


@pytest.mark.parametrize("suffix", ["", ".gz"], ids=["plain", "gzip"])
def test_folder_serves_the_file_without_a_download(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    (tmp_path / "toy").mkdir()
    stored = gzip.compress(CONTENT) if suffix else CONTENT
    (tmp_path / f"toy/table.csv{suffix}").write_bytes(stored)
    monkeypatch.setenv("PYRO_GCM_DATA", str(tmp_path))
    assert read_raw(RawFile("toy/table.csv", SHA256, f"{site.url}/file")) == CONTENT
    assert site.asked == []


@pytest.mark.parametrize(
    ("name", "stored", "message"),
    [
        ("table.csv", CONTENT[:-1], rf"has sha256 \w+, expected {SHA256}"),
        ("table.csv.gz", gzip.compress(CONTENT[:-1]), rf"has sha256 \w+, expected {SHA256}"),
        ("table.csv.gz", gzip.compress(CONTENT)[:-9], "is not a complete gzip file"),
        ("table.csv.gz", CONTENT, "is not a complete gzip file"),
    ],
    ids=["plain", "gzip", "cut_gzip", "no_gzip"],
)
def test_damaged_file_in_the_folder_is_refused_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, stored: bytes, message: str
) -> None:
    path = tmp_path / "toy" / name
    path.parent.mkdir()
    path.write_bytes(stored)
    monkeypatch.setenv("PYRO_GCM_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=message):
        read_raw(RawFile("toy/table.csv", SHA256, "https://example.org/file"))
    assert path.read_bytes() == stored


def test_missing_file_names_the_variable_and_the_path(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.files["/file"] = CONTENT
    monkeypatch.setenv("PYRO_GCM_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        read_raw(RawFile("toy/table.csv", SHA256, f"{site.url}/file"))
    assert "PYRO_GCM_DATA" in str(caught.value)
    assert str(tmp_path / "toy" / "table.csv") in str(caught.value)
    assert site.asked == []


def test_download_that_is_gzipped_is_unpacked(site: Site) -> None:
    site.files["/table.csv.gz"] = gzip.compress(CONTENT)
    assert read_raw(RawFile("toy/table.csv", SHA256, f"{site.url}/table.csv.gz")) == CONTENT
    site.files["/cut.csv.gz"] = gzip.compress(CONTENT)[:-9]
    with pytest.raises(ValueError, match=r"is not a complete gzip file.*removed, the next call"):
        read_raw(RawFile("toy/table.csv", SHA256, f"{site.url}/cut.csv.gz"))


def test_file_without_a_known_digest_is_not_verified(site: Site) -> None:
    site.files["/file"] = b"anything"
    assert read_raw(RawFile("toy/table.csv", None, f"{site.url}/file")) == b"anything"


# The output of `sha256sum a.csv b.csv | sha256sum` for b"1\n" and b"2\n".
MEMBERS = {"a.csv": b"1\n", "b.csv": b"2\n"}
MANIFEST = "ffa316d1dfc28adc171ad727498624f20943b24bd0fc8f3bf6a3ffa9e227104c"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archive_is_verified_by_its_members_however_compressed(
    site: Site, order: int, compression: int
) -> None:
    site.files["/file"] = archive(dict(list(MEMBERS.items())[::order]), compression)
    file = RawFile("toy/both.zip", MANIFEST, f"{site.url}/file", archive=True)
    content = read_raw(file)
    assert content == site.files["/file"]
    assert list(unzip(content, "toy").items()) == list(MEMBERS.items())


@pytest.mark.parametrize(
    ("served", "message"),
    [
        (archive({"a.csv": b"2\n", "b.csv": b"1\n"}), rf"sha256 \w+, expected {MANIFEST}"),
        (archive({"a.csv": b"1\n2\n", "b.csv": b""}), rf"sha256 \w+, expected {MANIFEST}"),
        (archive({"a.csv": b"1\n", "c.csv": b"2\n"}), rf"sha256 \w+, expected {MANIFEST}"),
        (archive({"a.csv": b"1\n"}), rf"sha256 \w+, expected {MANIFEST}"),
        (archive(MEMBERS)[:-30], "is not a complete zip file"),
    ],
    ids=["swapped", "shifted", "renamed", "lost", "cut"],
)
def test_changed_archive_is_refused_and_removed(
    site: Site, tmp_path: Path, served: bytes, message: str
) -> None:
    site.files["/file"] = served
    with pytest.raises(ValueError, match=message):
        read_raw(RawFile("toy/both.zip", MANIFEST, f"{site.url}/file", archive=True))
    assert cached(tmp_path) == []
