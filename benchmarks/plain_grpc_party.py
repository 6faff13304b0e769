"""The other end of the plain gRPC reference: receives frames and sends as many back."""

import queue
import sys
from pathlib import Path

import grpc

from plait.transports.certificates import Folder
from plait.transports.grpc_options import KEEPALIVE
from plait.transports.tls import Identity


def main() -> None:
    name, folder, port, rounds, count = sys.argv[1:]
    identity = Identity.load(Folder(Path(folder)), name)
    channel = grpc.secure_channel(
        f"127.0.0.1:{port}", identity.client(), [*KEEPALIVE, ("grpc.ssl_target_name_override", "p0")]
    )
    outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    incoming = channel.stream_stream("/bench.Plain/Echo")(iter(outgoing.get, None))
    received: list[bytes] = []
    for _ in range(int(rounds)):
        received = [next(incoming) for _ in range(int(count))]
        for frame in received:
            outgoing.put(frame)
    for _ in incoming:
        pass
    outgoing.put(None)


if __name__ == "__main__":
    main()
