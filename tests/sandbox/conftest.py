"""An API server under virtual time, with a client that shows whole answers."""

import random
from datetime import UTC, datetime

import pytest
from tests.sandbox.apiserver_hands import Api

from regroup.kube.resources import NAMESPACES
from regroup.runtime.clock import LoopClock
from regroup.sandbox.apiserver.server import ApiServer


@pytest.fixture
def api() -> Api:
    """A server with the namespace ``default``. Not async: its clock starts in the test's own loop."""
    server = ApiServer(clock=LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC)), rng=random.Random(1))
    meta = {"name": "default", "uid": "default", "labels": {"kubernetes.io/metadata.name": "default"}}
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": meta, "status": {"phase": "Active"}}
    server.storage.put(NAMESPACES, ("", "default"), namespace)
    return Api(server)
