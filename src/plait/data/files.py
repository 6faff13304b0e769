"""Public files: found in a folder, or downloaded once, and used only if their checksum is right."""

import hashlib
import lzma
import os
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from plait._files import write_atomically
from plait.errors import DatasetError

_TIMEOUT = 30.0  # seconds without a byte: longer than any pause of a server that is going to answer


@dataclass(frozen=True)
class PublicFile:
    """A file by its path below a data folder (there perhaps with .xz), the SHA-256 of its content, and its source."""

    path: str
    sha256: str
    url: str | None = None


def read_public(file: PublicFile) -> bytes:
    """The content of the file, from PLAIT_DATA, the cache folder, or its source."""
    named = os.environ.get("PLAIT_DATA")
    for folder in ([Path(named)] if named else []) + [cache_folder()]:
        for path in (folder / file.path, folder / f"{file.path}.xz"):
            if path.is_file():
                return _checked(file, _content(path), str(path))
    if file.url is None:
        raise DatasetError(f"{file.path} has no public source to download it from. {_remedy(file)}")
    content = _checked(file, _download(file, file.url), file.url)
    _keep(cache_folder() / file.path, content)
    return content


def cache_folder() -> Path:
    """Where downloads are kept: the platform's own place for caches."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "plait"


def _content(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return lzma.decompress(raw) if path.suffix == ".xz" else raw
    except (OSError, lzma.LZMAError) as error:
        raise DatasetError(f"{path} must be a readable file. Found: {error}. Remove or replace it.") from error


def _download(file: PublicFile, url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
            return response.read()
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DatasetError(f"{file.path} could not be downloaded from {url}: {reason}. {_remedy(file)}") from error


def _checked(file: PublicFile, content: bytes, where: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise DatasetError(
            f"{where} must have the SHA-256 {file.sha256[:12]}... Found {found[:12]}... ({len(content)} bytes): it is "
            f"damaged or another version. Replace it. {_remedy(file)}"
        )
    return content


def _remedy(file: PublicFile) -> str:
    return f"Put the file (or its .xz) at {file.path} in a folder, and name that folder in PLAIT_DATA."


def _keep(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        raise DatasetError(
            f"{path} must be writable to keep the download. Found: {error}. Choose another cache with XDG_CACHE_HOME."
        ) from error
