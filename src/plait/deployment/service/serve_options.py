"""How the prediction service is reached, and how it protects the columns behind the scores."""

from dataclasses import dataclass
from pathlib import Path

from plait.errors import ConfigError
from plait.transports.queries import SILENCE
from plait.transports.tls import is_loopback


@dataclass(frozen=True)
class ServeOptions:
    """How the service is reached and what it allows.

    Parameters
    ----------
    http : str, default="127.0.0.1:8080"
        host:port of the service.
    per_minute : int, default=600
        Ids scored per minute for each token, or for all clients together where there are no tokens; 0 for no limit.
    most_ids : int, default=100
        Ids in one request to /scores.
    decimals : int, default=3
        Digits after the point of every score and probability.
    certificate, key : Path, default=None
        PEM files for TLS; plain HTTP without them.
    answer_within : float, default=0.9
        Seconds without a sign of life after which a party counts as away.
    anywhere : bool, default=False
        Also listen beyond this machine without TLS or without tokens.
    """

    http: str = "127.0.0.1:8080"
    per_minute: int = 600
    most_ids: int = 100
    decimals: int = 3
    certificate: Path | None = None
    key: Path | None = None
    answer_within: float = SILENCE
    anywhere: bool = False

    def __post_init__(self) -> None:
        host, _, port = self.http.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"--http must be host:port. Found {self.http!r}.")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("--tls-certificate and --tls-key must be given together. Found one of them.")
        if not self.answer_within > 0:
            raise ConfigError(f"--answer-within must be positive. Found {self.answer_within}.")

    @property
    def host(self) -> str:
        return self.http.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.http.rpartition(":")[2])

    @property
    def encrypted(self) -> bool:
        return self.certificate is not None

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the service."""
        return is_loopback(self.http)

    def check_reach(self, tokens: bool) -> None:
        """Raise ConfigError where others on a network could ask without a token, or read along without TLS."""
        if self.local or self.anywhere:
            return
        if not self.encrypted:
            raise ConfigError(
                f"a service beyond this machine must use TLS. Found --http {self.http} without --tls-certificate and "
                "--tls-key. Give them, or insist on plain text with --insecure-anywhere."
            )
        if not tokens:
            raise ConfigError(
                f"a service beyond this machine must know its clients. Found --http {self.http} and no token. Make "
                "one: `plait serve token JOB --client NAME`."
            )
