"""Commands are tested on the planes' clusters, whose logs are short."""

from tests.planes.conftest import plain_logs

__all__ = ["plain_logs"]
