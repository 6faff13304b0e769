"""What a party was asked: a repeated question must be the same as the first time."""

from collections.abc import Mapping

from plait.errors import ProtocolError
from plait.messages import Broadcast

_LARGE_QUESTION = 1 << 24  # bytes: of a larger question only the digest is kept; it takes milliseconds and saves memory


class Questions:
    """The last questions of a run by their number, and the digests of those before a restart.

    Parameters
    ----------
    window : int
        How many questions can come again.
    asked : mapping of int to str
        Number -> digest of what was asked before a restart, from the audit log.
    """

    def __init__(self, window: int, asked: Mapping[int, str]) -> None:
        self._window = window
        self._asked = asked
        self._last: dict[int, Broadcast | str] = {}
        """The questions, or their digests where they are large."""

    def keep(self, seq: int, broadcast: Broadcast) -> None:
        """Remember a question, and forget the oldest one."""
        self._last[seq] = broadcast.digest if broadcast.bytes > _LARGE_QUESTION else broadcast
        if len(self._last) > self._window:
            del self._last[next(iter(self._last))]

    def need_same(self, seq: int, broadcast: Broadcast) -> None:
        """ProtocolError where exchange `seq` asked something else before."""
        kept = self._last.get(seq)
        before = kept.digest if isinstance(kept, Broadcast) else kept or self._asked.get(seq)
        if before is not None and before != broadcast.digest:
            raise ProtocolError(
                f"exchange {seq} must ask what it asked before. Found other numbers: the coordinator's labels, run "
                "folder or software have changed. Restore them, or start over with `plait coordinator --fresh`."
            )
