"""What both ends of a connection agree on: the service's name, and how gRPC is to keep the connection."""

import resource
from collections.abc import Callable
from typing import Any

from plait.transports.frames import MAX_FRAME_BYTES

SERVICE, CONVERSE = "plait.Parties", "Converse"

Note = Callable[..., None]
"""Where both ends report what happens: note(what, **facts)."""

KEEPALIVE: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 10_000),  # milliseconds of silence before a ping: meant to notice a dead peer in 15 s
    ("grpc.keepalive_timeout_ms", 5_000),  # milliseconds to answer a ping: many times the slowest line
    ("grpc.keepalive_permit_without_calls", 1),  # 1 is yes
    ("grpc.http2.max_pings_without_data", 0),  # 0 is no limit: a party may compute for hours
    ("grpc.max_receive_message_length", MAX_FRAME_BYTES),
    ("grpc.max_send_message_length", MAX_FRAME_BYTES),
]
SERVER_OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE,
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),  # half of the parties' own interval
    ("grpc.so_reuseport", 0),  # 0 is no: a second coordinator on this port must fail
    ("grpc.server_handshake_timeout_ms", 20_000),  # milliseconds for TLS to finish: as long as for a greeting
]
_MOST_CONNECTIONS = 4096  # connections, also of strangers until TLS has refused them: far more than parties


def server_options() -> list[tuple[str, Any]]:
    """How a coordinator listens: strangers may take half of the files that this process may open, not the rest."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * _MOST_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, soft // 2)
    return [*SERVER_OPTIONS, ("grpc.max_allowed_incoming_connections", most)]
