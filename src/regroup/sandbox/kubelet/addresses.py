"""Addresses for simulated pods: unique while held, in order, nothing behind them."""

from ipaddress import IPv4Address

FIRST = int(IPv4Address("10.244.0.2"))
SIZE = 2**18 - 4
"""10.244.0.0/14, so that a quarter of a million pods have one."""


class AddressPool:
    """Who has which address."""

    def __init__(self) -> None:
        self._next = 0
        self._held: dict[str, str] = {}
        self._taken: set[str] = set()

    def take(self, uid: str, *, wanted: str = "") -> str:
        """An address for the pod ``uid``; the one that it had before if it is free. Empty when there is none left."""
        if uid in self._held:
            return self._held[uid]
        address = wanted if wanted and wanted not in self._taken else self._free()
        if address:
            self._held[uid] = address
            self._taken.add(address)
        return address

    def give_back(self, uid: str) -> None:
        """The pod needs its address no more."""
        address = self._held.pop(uid, None)
        if address is not None:
            self._taken.discard(address)

    def _free(self) -> str:
        for _ in range(SIZE):
            address = str(IPv4Address(FIRST + self._next))
            self._next = (self._next + 1) % SIZE
            if address not in self._taken:
                return address
        return ""
