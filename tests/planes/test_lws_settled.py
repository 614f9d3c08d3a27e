"""What a large set costs once nothing happens: nothing (issue 5's budgets, design 8)."""

import pytest
from tests.planes.plane import lws_manifest
from tests.planes.sandbox_plane import SandboxPlane

GROUPS = 1000


@pytest.mark.looptime
async def test_a_thousand_settled_groups_cause_no_request() -> None:
    """Design 8, issue 5: 1,000 groups, ten minutes, not one request of the operator: no write, and no read either. Watches apart,
    which end and begin anew; the time is long enough for every look that anything may have put off."""
    plane = SandboxPlane(nodes=1 + GROUPS * 2 // 110)
    async with plane:
        await plane.apply(lws_manifest(replicas=GROUPS, size=2))
        await plane.wait_available(timeout=600)
        mark = await plane.at_rest()
        await plane.sleep(600)
        assert [str(entry) for entry in plane.requests[mark:]] == []
