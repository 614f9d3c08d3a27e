"""Groups that are named by a drawn key, told with kubectl: [seed] behaviours 12, 107, 108, 109, 110."""

from typing import Any

import pytest
from tests.stories.lws.story_cluster import Kubectl, P, lws

pytestmark = [pytest.mark.http, pytest.mark.kubectl]


def leaders(k: Kubectl) -> dict[str, dict[str, Any]]:
    return {name: pod for name, pod in k.pods().items() if pod["metadata"]["labels"][f"{P}worker-index"] == "0"}


def group_key(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"][f"{P}group-index"])


def gated(pod: dict[str, Any]) -> bool:
    gates = pod["spec"].get("schedulingGates", ())
    return {"name": f"{P}group-replacement"} in gates and "deletionTimestamp" not in pod["metadata"]


def retained(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"].get("annotations", {}).get(f"{P}group-restart-budget-exhausted") == "true")


@pytest.mark.parametrize("policy", ["PostTermination", "Immediate"])
def test_the_count_moves_and_an_exhausted_group_holds_one_back(k: Kubectl, policy: str) -> None:
    """Behaviours 12, 107-110: the replacement of a failed group has another key and takes its count over; when the budget is used
    up the group is kept and one leader waits behind its gate, under both replacement policies, until the group is recovered; then
    that leader is let in with nothing counted."""
    k.apply(lws(template={"maxGroupRestarts": 1}, groupIdentity="Hash", groupReplacementPolicy=policy))
    k.ready()
    ((first, pod),) = leaders(k).items()
    key = group_key(pod)
    k.crash(first)

    def replaced() -> dict[str, Any] | None:
        found = [pod for name, pod in leaders(k).items() if name != first and not gated(pod)]
        return found[0] if len(found) == 1 and list(k.counts().values()) == [1] else None

    second = k.until(replaced, what="another group takes the place")
    assert group_key(second) != key
    k.until(lambda: list(k.counts()) == [group_key(second)], what="the count has moved to the new key")
    k.until(lambda: len(k.pods()) == 2 and k.condition("Available")[0] == "True", what="the new group is ready")

    k.crash(second["metadata"]["name"])

    def held() -> str:
        now = leaders(k)
        waiting = [name for name, pod in now.items() if gated(pod)]
        return waiting[0] if len(waiting) == 1 and any(retained(pod) for pod in now.values()) else ""

    third = k.until(held, what="the exhausted group is kept and the next leader waits")
    k("wait", "lws/demo", "--for=condition=Degraded", "--timeout=30s")
    k.lets_pass(40)
    assert held() == third

    k("annotate", "pod", second["metadata"]["name"], f"{P}recover=true")
    k.until(lambda: third in leaders(k) and not gated(leaders(k)[third]), what="the waiting leader is let in")
    k.until(lambda: k.condition("Available")[0] == "True", what="all is well again")
    assert k.counts() == {}
    assert k.condition("Degraded") == ("False", "AsExpected")
