"""Files that are either the old ones or the new ones, whatever happens in between, and that only their owner reads.

Everything that plait keeps says something about somebody's data, so files have mode 0600 and folders 0700.  A link in
the place of such a file is not followed: it would send what is written to where somebody else wants it.
"""

import errno
import hashlib
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

from plait._shapes import Shape, misfit
from plait.errors import StorageError

FILE_MODE, FOLDER_MODE = 0o600, 0o700  # for the owner alone


def write_atomically(path: Path, *parts: bytes | memoryview) -> None:
    """Write, fsync, rename; StorageError where the disk does not take it, and the old file is still there."""
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")
    make_folder(path.parent)
    try:
        temporary.unlink(missing_ok=True)  # of a killed program with this number, or a link that somebody left there
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(f"{path} must be writable. Found: {error.strerror}. Make room, or correct it.") from error


def make_folder(path: Path) -> Path:
    """The folder, made with its parents where it is not there; those are for the owner alone.

    Links on the way are followed where this user or root has made them, and never those of others.
    """
    try:
        for folder in [*reversed(path.parents), path]:
            if folder.is_symlink() and folder.lstat().st_uid not in (0, os.geteuid()):
                raise StorageError(f"{folder} must not be a link that another user has made. Found one. Remove it.")
            if not folder.exists():
                folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the folder {path} must be there, or can be made. Found: {error.strerror}. Make room, or correct it."
        ) from error
    return path


def need_no_link(folder: Path) -> None:
    """Raise StorageError where a folder that plait makes itself is a link: to an older one, or to somebody else's."""
    if folder.is_symlink():
        raise StorageError(
            f"{folder} must be a folder of its own. Found a link to {folder.readlink()}. Remove the link, and "
            "move the folder itself here."
        )


def need_own_file(path: Path, *beginnings: str) -> None:
    """Raise StorageError where something is there that does not begin as plait's own files do: it is the user's."""
    own = not path.exists()
    if path.is_file():
        with path.open("rb") as file:
            found = file.read(max(map(len, beginnings)))
        own = not found or found.startswith(tuple(each.encode() for each in beginnings))
    if not own:
        raise StorageError(
            f"{path} must be a new file, or one that this command wrote before. Found another. It was left as it is. "
            "Choose another name, or move it away."
        )


def private_opener(name: str, flags: int) -> int:
    """For `open`: a new file is for the owner alone; OSError for a link, a pipe and other things that are no file."""
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, FILE_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file")
    return descriptor


def open_private(path: Path, mode: str) -> Any:
    """A file opened as `open` does, for bytes; a new one is for the owner alone, and links are not followed."""
    try:
        return open(path, mode, opener=private_opener)
    except OSError as error:
        what = "a link in its place" if path.is_symlink() else error.strerror
        raise StorageError(f"{path} must be writable. Found: {what}. Make room, or correct it.") from error


def write_durably(file: Any, data: bytes, path: Path) -> None:
    """Write to an open file and wait for the disk; StorageError where it does not take it."""
    try:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(f"{path} must be writable. Found: {error.strerror}. Make room, or correct it.") from error


def mark(path: Path) -> None:
    """An empty file whose being there says something."""
    make_folder(path.parent)
    open_private(path, "ab").close()


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in this folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: Any) -> None:
    """JSON with exact floats (Python writes the shortest text that reads back to the same number)."""
    plain = json.loads(json.dumps(content))  # as it will be read
    sealed = {**content, "sha256": _sum(plain)}
    write_atomically(path, (json.dumps(sealed, indent=1, ensure_ascii=False) + "\n").encode())


def _sum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def read_json(path: Path, what: str, shape: Shape, version: int = 1) -> dict[str, Any]:
    """A JSON object of this shape whose "format" is `version`; StorageError names the file and what to do."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StorageError(f"{what} must be at {path}. Found no such file.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(
            f"{what} must be readable JSON. Found {path}: {error}. Restore a copy of the whole folder."
        ) from error
    if not isinstance(content, dict) or content.get("format") != version:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise StorageError(
            f"{what} must have format {version}. Found {found!r} in {path}. Install the plait that wrote it."
        )
    if content.pop("sha256", None) != _sum(content):
        raise StorageError(
            f"{what} must be as plait wrote it. Found {path}, whose checksum is missing or wrong: it "
            "is damaged, or was edited. Restore a copy of the whole folder."
        )
    if (wrong := misfit(content, shape)) is not None:
        raise StorageError(
            f"{what} must have its fields, each of its kind. Found another {wrong.strip('.') or 'content'} in {path}. "
            "Restore a copy of the whole folder."
        )
    return content
