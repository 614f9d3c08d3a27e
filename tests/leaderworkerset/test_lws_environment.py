"""Injected environment variables (spec/leaderworkerset.md 2.10)."""

from typing import Any

import pytest
from tests.leaderworkerset.lws_api_builders import pod_dict

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.objects.environment import add_lws_variables, add_tpu_variables, requests_tpus

TPU_RESOURCES = {"limits": {"google.com/tpu": "4"}}


def _env(pod: dict[str, Any], container: int = 0) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][container].get("env", [])}


def _tpu_pod(
    name: str,
    *,
    index: str,
    size: int = 4,
    containers: int = 1,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
) -> dict[str, Any]:
    pod = pod_dict(name, index=index, size=size, annotations=annotations, labels=labels, spec=spec)
    pod["spec"]["containers"] = [{"name": f"c{number}", "resources": TPU_RESOURCES} for number in range(containers)]
    return pod


def test_the_three_variables_come_first_everywhere() -> None:
    """Behaviour 27: in every container and init container, before the user's, who may refer to them."""
    user = [{"name": "A", "value": "$(LWS_LEADER_ADDRESS)"}]
    spec = {
        "containers": [{"name": "a", "env": user}, {"name": "b"}],
        "initContainers": [{"name": "i", "env": None}],
    }
    pod = pod_dict("demo-1-2", index="2", labels={keys.GROUP_INDEX: "1"}, annotations={keys.LEADER_ADDRESS: "l.s.n"}, spec=spec)
    add_lws_variables(pod, namespace="t")
    first = [
        {"name": "LWS_LEADER_ADDRESS", "value": "l.s.n"},
        {"name": "LWS_GROUP_SIZE", "value": "4"},
        {"name": "LWS_WORKER_INDEX", "value": "2"},
    ]
    for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
        assert container["env"][:3] == first
    assert pod["spec"]["containers"][0]["env"][3:] == user


def test_the_users_own_give_way() -> None:
    """2.10: a user's variable of the same name is dropped; a second time changes nothing."""
    spec = {"containers": [{"name": "a", "env": [{"name": "LWS_GROUP_SIZE", "value": "99"}, {"name": "B", "value": "b"}]}]}
    pod = pod_dict("demo-0", index="0", spec=spec)
    add_lws_variables(pod, namespace="t")
    names = [entry["name"] for entry in pod["spec"]["containers"][0]["env"]]
    assert names == ["LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "B"]
    assert _env(pod)["LWS_GROUP_SIZE"] == "4"
    before = [dict(entry) for entry in pod["spec"]["containers"][0]["env"]]
    add_lws_variables(pod, namespace="t")
    assert pod["spec"]["containers"][0]["env"] == before


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hostname": "demo-1", "subdomain": "demo"}, "demo-1.demo.t"),
        ({"hostname": "demo-1", "subdomain": "demo-1"}, "demo-1.demo-1.t"),
        ({"hostname": "", "subdomain": "demo"}, "demo-1.demo.t"),
        ({"hostname": None, "subdomain": None}, "demo-1.demo.t"),
    ],
)
def test_leader_address_of_a_leader(spec: dict[str, Any], expected: str) -> None:
    """2.10: by host name where it has one, else by name and group index."""
    pod = pod_dict("demo-1", index="0", labels={keys.GROUP_INDEX: "1"}, spec=spec)
    add_lws_variables(pod, namespace="t")
    assert _env(pod)["LWS_LEADER_ADDRESS"] == expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (TPU_RESOURCES, True),
        ({"requests": {"google.com/tpu": 4}}, True),
        ({"limits": {"google.com/tpu": "0"}}, False),
        ({"limits": {"cpu": "1"}}, False),
        (None, False),
    ],
)
def test_requests_tpus(resources: Any, expected: bool) -> None:
    """2.10: limits or requests, of regular and init containers."""
    assert requests_tpus({"containers": [{"name": "a", "resources": resources}]}) is expected
    assert requests_tpus({"containers": [{"name": "x"}], "initContainers": [{"name": "a", "resources": resources}]}) is expected


def test_no_tpu_no_variables() -> None:
    """2.10: only where TPUs are requested."""
    pod = pod_dict("demo-0", index="0")
    add_tpu_variables(pod, size=4)
    assert _env(pod) == {}


def test_leader_with_tpus_is_worker_0() -> None:
    """2.10: the leader that requests TPUs has id 0 and comes first; its workers keep their index as id."""
    pod = _tpu_pod("demo-0", index="0", size=3)
    add_tpu_variables(pod, size=3)
    assert _env(pod) == {
        "TPU_WORKER_HOSTNAMES": "demo-0.demo,demo-0-1.demo,demo-0-2.demo",
        "TPU_WORKER_ID": "0",
        "TPU_NAME": "demo-0",
        "TPU_PROCESS_ADDRESSES": "demo-0.demo:8476,demo-0-1.demo:8476,demo-0-2.demo:8476",
        "TPU_PROCESS_PORT": "8476",
    }
    worker = _tpu_pod("demo-0-2", index="2", size=3, annotations={keys.LEADER_REQUESTS_TPUS: "true"})
    add_tpu_variables(worker, size=3)
    assert _env(worker) == {**_env(pod), "TPU_WORKER_ID": "2"}


def test_leader_without_tpus_does_not_count() -> None:
    """2.10: then ids shift down by one."""
    pod = _tpu_pod("demo-0-1", index="1", size=3)
    add_tpu_variables(pod, size=3)
    assert _env(pod)["TPU_WORKER_HOSTNAMES"] == "demo-0-1.demo,demo-0-2.demo"
    assert _env(pod)["TPU_WORKER_ID"] == "0"


def test_several_tpu_containers() -> None:
    """2.10: ports count up with the container, ids with pods and containers, hosts appear once for each container."""
    pod = _tpu_pod("demo-0-1", index="1", size=2, containers=2, annotations={keys.LEADER_REQUESTS_TPUS: "true"})
    add_tpu_variables(pod, size=2)
    first, second = _env(pod, 0), _env(pod, 1)
    assert first["TPU_WORKER_HOSTNAMES"] == "demo-0.demo,demo-0.demo,demo-0-1.demo,demo-0-1.demo"
    assert first["TPU_PROCESS_ADDRESSES"] == "demo-0.demo:8476,demo-0.demo:8477,demo-0-1.demo:8476,demo-0-1.demo:8477"
    assert (first["TPU_WORKER_ID"], second["TPU_WORKER_ID"]) == ("2", "3")
    assert (first["TPU_PROCESS_PORT"], second["TPU_PROCESS_PORT"]) == ("8476", "8477")


def test_the_users_port_is_used() -> None:
    """2.10: unless the user set it."""
    pod = _tpu_pod("demo-0", index="0", size=1)
    pod["spec"]["containers"][0]["env"] = [{"name": "TPU_PROCESS_PORT", "value": "9000"}]
    add_tpu_variables(pod, size=1)
    assert _env(pod)["TPU_PROCESS_ADDRESSES"] == "demo-0.demo:9000"
    assert [entry["name"] for entry in pod["spec"]["containers"][0]["env"]].count("TPU_PROCESS_PORT") == 1


@pytest.mark.parametrize("name", ["TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"])
def test_the_users_own_tpu_set_up_is_left_alone(name: str) -> None:
    """2.10: injection is skipped when either is there, which also makes a second time harmless."""
    pod = _tpu_pod("demo-0", index="0")
    pod["spec"]["containers"][0]["env"] = [{"name": name, "value": "mine"}]
    add_tpu_variables(pod, size=4)
    assert _env(pod) == {name: "mine"}


def test_hash_leaders_are_named_by_host() -> None:
    """B14: in Hash mode the pod's name is not the one that DNS knows."""
    pod = _tpu_pod("demo-6f7b-x2x4z", index="0", size=2, spec={"hostname": "demo-01234567"})
    add_tpu_variables(pod, size=2)
    assert _env(pod)["TPU_WORKER_HOSTNAMES"] == "demo-01234567.demo,demo-01234567-1.demo"
    assert _env(pod)["TPU_NAME"] == "demo-01234567"


SUBGROUPS = {keys.SUBGROUP_SIZE: "2", keys.SUBGROUP_POLICY_TYPE: "LeaderWorker"}


@pytest.mark.parametrize(
    ("name", "index", "subgroup", "size", "leader_tpus", "hosts", "worker_id"),
    [
        ("demo-0", "0", "0", 4, True, "demo-0.demo,demo-0-1.demo", "0"),
        ("demo-0-1", "1", "0", 4, True, "demo-0.demo,demo-0-1.demo", "1"),
        ("demo-0-3", "3", "1", 4, True, "demo-0-2.demo,demo-0-3.demo", "1"),
        ("demo-0-2", "2", "0", 5, False, "demo-0-1.demo,demo-0-2.demo", "1"),
        ("demo-0-3", "3", "1", 5, False, "demo-0-3.demo,demo-0-4.demo", "0"),
    ],
)
def test_only_the_own_subgroup_is_listed(
    *, name: str, index: str, subgroup: str, size: int, leader_tpus: bool, hosts: str, worker_id: str
) -> None:
    """2.10: with subgroups only the pods of the same subgroup are listed."""
    annotations = {**SUBGROUPS, keys.LEADER_REQUESTS_TPUS: "true" if leader_tpus else ""}
    pod = _tpu_pod(name, index=index, size=size, annotations=annotations, labels={keys.SUBGROUP_INDEX: subgroup})
    add_tpu_variables(pod, size=size)
    assert (_env(pod)["TPU_WORKER_HOSTNAMES"], _env(pod)["TPU_WORKER_ID"]) == (hosts, worker_id)


def test_a_leader_outside_of_all_subgroups_is_alone() -> None:
    """2.10 with LeaderExcluded: no worker lists it, and it lists no worker."""
    excluded = {keys.SUBGROUP_SIZE: "2", keys.SUBGROUP_POLICY_TYPE: "LeaderExcluded", keys.LEADER_REQUESTS_TPUS: "true"}
    leader = _tpu_pod("demo-0", index="0", size=5, annotations=excluded)
    add_tpu_variables(leader, size=5)
    assert _env(leader)["TPU_WORKER_HOSTNAMES"] == "demo-0.demo"
    worker = _tpu_pod("demo-0-1", index="1", size=5, annotations=excluded, labels={keys.SUBGROUP_INDEX: "0"})
    add_tpu_variables(worker, size=5)
    assert _env(worker)["TPU_WORKER_HOSTNAMES"] == "demo-0-1.demo,demo-0-2.demo"


def test_a_surplus_worker_is_not_a_tpu_worker() -> None:
    """Q30: a worker set that somebody scaled up makes pods beyond the group's size; they are admitted all the same."""
    pod = _tpu_pod("demo-0-7", index="7")
    add_tpu_variables(pod, size=4)
    assert _env(pod) == {}
