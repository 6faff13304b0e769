"""The channel to all parties of a run: those in the coordinator's process and those that dial in."""

from collections.abc import Callable, Mapping

from plait.deployment.stored_party import StoredParty
from plait.messages import Broadcast, Share
from plait.transports.server import Hub


class AllParties:
    """Asks every party; local parties compute while the remote ones do."""

    def __init__(self, local: Mapping[str, StoredParty], hub: Hub | None) -> None:
        self._local = local
        self._hub = hub

    def ask(self, seq: int, requests: Mapping[str, Broadcast], meanwhile: Callable[[], None]) -> dict[str, Share]:
        remote = {name: b for name, b in requests.items() if name not in self._local}
        if self._hub is not None:
            self._hub.put(seq, remote)
            self._hub.give_head_start()
        meanwhile()
        shares = {name: self._local[name].answer(seq, b) for name, b in requests.items() if name in self._local}
        if self._hub is not None:
            shares |= {name: self._hub.take(name) for name in remote}
        for party in self._local.values():
            party.rest()
        return {name: shares[name] for name in requests}

    def replay(self, seq: int, requests: Mapping[str, Broadcast], told: Mapping[str, Share]) -> dict[str, Share]:
        if self._hub is not None:
            self._hub.remember(seq, requests, told)
        local = self._local
        return {n: local[n].repeat(seq, b) if n in local else told[n] for n, b in requests.items()}
