"""Ports for servers of tests."""

import random
import socket

# Below the ports that Linux gives to outgoing connections (from 32768 on): one of those could take it before its server does.
_PORTS = range(12_000, 32_000)
_random = random.SystemRandom()


def free_port() -> int:
    """A port of loopback that nobody listens on now, and that no connection is given."""
    while True:
        port = _random.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
