"""A TCP line on loopback that can be cut, or go silent while it stays open."""

import contextlib
import socket
import threading
from dataclasses import dataclass, field

_PIECE = 1 << 16  # bytes that are forwarded at once


@dataclass
class _Through:
    """One connection: the dialling party's socket and the coordinator's, and whom nothing reaches any more."""

    party: socket.socket
    coordinator: socket.socket
    deaf: set[str] = field(default_factory=set)


class Line:
    """Forwards connections to a port.  What happens to a line happens to those that are open; later ones work."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[_Through] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, end: str) -> None:
        """Close the sockets towards one end, as a firewall that forgets does; the other end hears nothing of it."""
        for through in self._open:
            through.deaf |= {"party", "coordinator"}
            near = through.party if end == "party" else through.coordinator
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def silence(self, end: str) -> None:
        """Let everything that is sent to one end vanish; nobody is told."""
        for through in self._open:
            through.deaf.add(end)

    def close(self) -> None:
        self._listener.close()
        for through in self._open:
            through.party.close()
            through.coordinator.close()

    def _accept(self) -> None:
        while True:
            try:
                party, _ = self._listener.accept()
            except OSError:
                return
            try:
                coordinator = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                party.close()
                continue
            through = _Through(party, coordinator)
            self._open.append(through)
            for source, sink, end in ((party, coordinator, "coordinator"), (coordinator, party, "party")):
                threading.Thread(target=self._pump, args=(through, source, sink, end), daemon=True).start()

    def _pump(self, through: _Through, source: socket.socket, sink: socket.socket, end: str) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                if end not in through.deaf:
                    sink.sendall(piece)
        if end not in through.deaf:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)
