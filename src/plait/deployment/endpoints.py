"""Where the coordinator listens and where the parties dial."""

from dataclasses import dataclass

from plait.transports.tls import Security


@dataclass(frozen=True)
class Listen:
    """Where the coordinator listens, and as whom."""

    address: str
    security: Security


@dataclass(frozen=True)
class Dial:
    """Where a party calls, and as whom."""

    address: str
    security: Security
