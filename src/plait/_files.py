"""Files that are either the old ones or the new ones, whatever happens in between."""

import json
import os
import threading
from pathlib import Path
from typing import Any

from plait.errors import StorageError


def write_atomically(path: Path, data: bytes, private: bool = False) -> None:
    """Replace a file in one step: after a crash it has its old content or its new content, never a mixture.

    The data go into a new file beside it and from there to the disk (fsync); then that file takes the name.
    Only its owner can read a `private` file, from its first byte on.  Folders that are missing are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in this folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: Any) -> None:
    """JSON with exact floats (Python writes the shortest text that reads back to the same number)."""
    write_atomically(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, what: str, version: int = 1) -> dict[str, Any]:
    """A JSON object whose "format" is `version`; StorageError names the file and what to do."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StorageError(f"{what} must be at {path}. Found no such file.") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{what} must be readable JSON. Found {path}: {error}.") from error
    if not isinstance(content, dict) or content.get("format") != version:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise StorageError(
            f"{what} must have format {version}. Found {found!r} in {path}. Install the plait that wrote it."
        )
    return content
