"""Where pods go and why they do not: one test a rule of kube-scheduler."""

from collections import Counter
from typing import Any

import pytest
from tests.sandbox.scheduler_fixtures import cluster, make_node, make_pod, put, where, why

from regroup.sandbox.scheduler.facts import facts
from regroup.sandbox.scheduler.placement import place
from regroup.sandbox.scheduler.state import ClusterState

ZONE = "topology.kubernetes.io/zone"


def zones(*names: str) -> ClusterState:
    """One node for each name, each in the zone of its first letter."""
    return cluster(*(make_node(name, labels={ZONE: name[0]}) for name in names))


def term(key: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


def required(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def test_no_nodes() -> None:
    """kube-scheduler's words for an empty cluster."""
    assert place(facts(make_pod("p")), ClusterState()).message == "no nodes available to schedule pods"


def test_the_whole_sentence() -> None:
    """Reasons tallied over nodes in the order of their texts, then what preemption would do: nothing for a taint, nor where the
    pod asks for more than the node has at all (seen on Kubernetes 1.36); elsewhere there is no victim."""
    state = cluster(
        make_node("a", taints=[{"key": "k", "effect": "NoSchedule"}]),
        make_node("b", allocatable={"cpu": "1"}),
        make_node("c"),
    )
    put(state, make_pod("one", requests={"cpu": "3"}), "c")
    assert place(facts(make_pod("p", requests={"cpu": "2"})), state).message == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ({"cpu": "5"}, "1 Insufficient cpu."),
        ({"memory": "9Gi"}, "1 Insufficient memory."),
        ({"nvidia.com/gpu": "1"}, "1 Insufficient nvidia.com/gpu."),
        ({"cpu": "5", "memory": "9Gi"}, "1 Insufficient cpu, 1 Insufficient memory."),
    ],
)
def test_resources(requests: dict[str, str], text: str) -> None:
    """Requests against allocatable; an extended resource that a node lacks is zero; every short one is named."""
    assert why(cluster(make_node("a")), make_pod("p", requests=requests)) == f"0/1 nodes are available: {text}"


def test_what_others_took_counts_until_they_leave() -> None:
    """Taken resources are those of placed pods; a pod that leaves gives them back."""
    state = cluster(make_node("a"))
    first = put(state, make_pod("one", requests={"cpu": "3"}), "a")
    assert "Insufficient cpu" in why(state, make_pod("two", requests={"cpu": "2"}))
    state.remove_pod(first.uid)
    assert where(state, make_pod("two", requests={"cpu": "2"})) == "a"


def test_too_many_pods() -> None:
    """The pod count of a node is a resource, for pods without requests as well."""
    state = cluster(make_node("a", allocatable={"pods": "1"}))
    put(state, make_pod("one"), "a")
    assert why(state, make_pod("two")) == "0/1 nodes are available: 1 Too many pods."


def test_limits_stand_for_requests() -> None:
    """A limit without a request is a request."""
    pod = make_pod("p", containers=[{"resources": {"limits": {"cpu": "5"}}}])
    assert "Insufficient cpu" in why(cluster(make_node("a")), pod)


def test_init_containers_count_as_a_peak_and_sidecars_add() -> None:
    """max(sum of containers + sidecars, init container + sidecars before it)."""
    init = [
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"resources": {"requests": {"cpu": "3"}}},
    ]
    pod = make_pod("p", requests={"cpu": "2"}, initContainers=init, overhead={"cpu": "250m"})
    assert facts(pod).requests == {"cpu": 4250, "pods": 1000}


def test_cordoned_and_tainted_nodes() -> None:
    """spec.unschedulable, NoSchedule and NoExecute keep pods off; PreferNoSchedule does not; tolerations help."""
    state = cluster(
        make_node("cordoned", unschedulable=True),
        make_node("tainted", taints=[{"key": "k", "value": "v", "effect": "NoExecute"}]),
    )
    assert why(state, make_pod("p")) == (
        "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )
    assert where(state, make_pod("p", tolerations=[{"key": "k", "value": "v"}])) == "tainted"
    cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert where(state, make_pod("p", tolerations=[cordon])) == "cordoned"
    state.set_node(make_node("tainted", taints=[{"key": "k", "effect": "PreferNoSchedule"}]))
    assert where(state, make_pod("p")) == "tainted"


def test_soft_taints_are_avoided() -> None:
    """PreferNoSchedule loses against a fuller node without it."""
    state = cluster(make_node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), make_node("b"))
    put(state, make_pod("one", requests={"cpu": "3"}), "b")
    assert where(state, make_pod("p", requests={"cpu": "500m"})) == "b"


def test_node_selector_and_node_affinity() -> None:
    """Both must hold; terms are alternatives; In, NotIn, Exists, DoesNotExist, Gt, Lt and matchFields."""
    state = cluster(make_node("a", labels={"kind": "x", "size": "4"}), make_node("b", labels={"kind": "y", "size": "8"}))

    def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}

    def one(key: str, operator: str, *values: str) -> dict[str, Any]:
        return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}

    assert where(state, make_pod("p", nodeSelector={"kind": "y"})) == "b"
    assert where(state, make_pod("p", affinity=affinity(one("size", "Gt", "5")))) == "b"
    assert where(state, make_pod("p", affinity=affinity(one("size", "Lt", "5")))) == "a"
    assert where(state, make_pod("p", affinity=affinity(one("kind", "NotIn", "x")))) == "b"
    assert where(state, make_pod("p", affinity=affinity(one("none", "Exists"), one("kind", "In", "y")))) == "b"
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    assert where(state, make_pod("p", affinity=affinity(field))) == "a"
    text = why(state, make_pod("p", nodeSelector={"kind": "x"}, affinity=affinity(one("kind", "In", "y"))))
    assert text == "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    assert "affinity/selector" in why(state, make_pod("p", affinity=affinity({})))


def test_preferred_node_affinity_outweighs_room() -> None:
    """A preference of weight 100 wins against an emptier node."""
    state = cluster(make_node("a", labels={"kind": "x"}), make_node("b"))
    put(state, make_pod("one", requests={"cpu": "2"}), "a")
    wish = {"weight": 100, "preference": {"matchExpressions": [{"key": "kind", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    assert where(state, make_pod("p", affinity=affinity)) == "a"


def test_host_ports_collide() -> None:
    """The same port and protocol on overlapping addresses."""
    state = cluster(make_node("a"))
    put(state, make_pod("one", containers=[{"ports": [{"hostPort": 80}]}]), "a")
    assert "free ports" in why(state, make_pod("p", containers=[{"ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}]))
    assert where(state, make_pod("p", containers=[{"ports": [{"hostPort": 80, "protocol": "UDP"}]}])) == "a"


def test_pod_affinity_follows_the_topology() -> None:
    """A node in a domain where a matching pod runs; a node without the label never matches."""
    state = cluster(make_node("a1", labels={ZONE: "a"}), make_node("b1", labels={ZONE: "b"}), make_node("c1"))
    put(state, make_pod("web", labels={"app": "web"}), "b1")
    pod = make_pod("p", affinity=required("podAffinity", term(ZONE, {"app": "web"})))
    assert where(state, pod) == "b1"
    state.remove_pod("uid-web")
    assert why(state, pod) == "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."


def test_the_first_pod_of_a_group_that_wants_itself_may_start() -> None:
    """Self-affinity must not lock itself out, as long as nobody matches; the second follows the first."""
    state = zones("a1", "a2", "b1")
    affinity = required("podAffinity", term(ZONE, {"app": "x"}))
    first = make_pod("one", labels={"app": "x"}, affinity=affinity)
    assert where(state, first) == "a1"
    put(state, first, "b1")
    assert where(state, make_pod("two", labels={"app": "x"}, affinity=affinity)) == "b1"


def test_affinity_is_for_the_pods_namespace_unless_said() -> None:
    """``namespaces`` and ``namespaceSelector`` widen the search; an empty selector means all namespaces."""
    state = zones("a1", "b1")
    put(state, make_pod("web", namespace="other", labels={"app": "web"}), "b1")
    state.set_namespace("other", {"team": "blue"})
    assert "affinity rules" in why(state, make_pod("p", affinity=required("podAffinity", term(ZONE, {"app": "web"}))))
    wider: list[dict[str, Any]] = [
        {"namespaces": ["other"]},
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"team": "blue"}}},
    ]
    for more in wider:
        assert where(state, make_pod("p", affinity=required("podAffinity", term(ZONE, {"app": "web"}, **more)))) == "b1"
    state.set_namespace("other", {"team": "red"})
    more = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
    assert "affinity rules" in why(state, make_pod("p", affinity=required("podAffinity", term(ZONE, {"app": "web"}, **more))))


def test_anti_affinity_in_both_directions() -> None:
    """A pod avoids those it names, and those that name it keep it away."""
    state = zones("a1", "a2", "b1")
    put(state, make_pod("web", labels={"app": "web"}), "b1")
    pod = make_pod("p", labels={"app": "db"}, affinity=required("podAntiAffinity", term(ZONE, {"app": "web"})))
    assert where(state, pod) == "a1"
    put(state, pod, "a1")
    assert why(state, make_pod("web2", labels={"app": "web"}, nodeSelector={ZONE: "a"})) == (
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "2 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    state.remove_pod("uid-p")
    assert where(state, make_pod("web2", labels={"app": "web"}, nodeSelector={ZONE: "a"})) == "a1"


def test_exclusive_placement_gives_each_group_its_own_domain() -> None:
    """The pattern of LeaderWorkerSet's exclusive topology: affinity to the own group key, anti-affinity to all others."""
    key = "example.com/group-key"
    state = zones("a1", "a2", "b1", "b2", "c1", "c2")

    def member(group: str, index: int) -> Any:
        mine = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": [group]}]}}
        other = {
            "topologyKey": ZONE,
            "labelSelector": {
                "matchExpressions": [{"key": key, "operator": "Exists"}, {"key": key, "operator": "NotIn", "values": [group]}]
            },
        }
        affinity = required("podAffinity", mine) | required("podAntiAffinity", other)
        return make_pod(f"{group}-{index}", labels={key: group}, affinity=affinity)

    placed: dict[str, set[str]] = {}
    for index in range(2):
        for group in ("g1", "g2", "g3"):
            pod = member(group, index)
            node = where(state, pod)
            assert node is not None
            put(state, pod, node)
            placed.setdefault(group, set()).add(node[0])
    assert sorted(map(sorted, placed.values())) == [["a"], ["b"], ["c"]]
    assert "anti-affinity" in why(state, member("g4", 0))


def test_topology_spread() -> None:
    """DoNotSchedule: the skew stays within maxSkew; a node without the label is out."""
    state = cluster(make_node("a1", labels={ZONE: "a"}), make_node("b1", labels={ZONE: "b"}), make_node("c1"))
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    tally: Counter[str] = Counter()
    for index in range(6):
        pod = make_pod(f"p{index}", labels={"app": "x"}, topologySpreadConstraints=[constraint])
        node = where(state, pod)
        assert node is not None
        put(state, pod, node)
        tally[node] += 1
    assert tally == {"a1": 3, "b1": 3}
    put(state, make_pod("p7", labels={"app": "x"}), "a1")
    state.set_node(make_node("b1", labels={ZONE: "b"}, unschedulable=True))
    pod = make_pod("p8", labels={"app": "x"}, topologySpreadConstraints=[constraint])
    assert why(state, pod) == (
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) didn't match pod topology spread constraints (missing required label), 1 node(s) were unschedulable."
    )


def test_preferred_pod_affinity_and_anti_affinity() -> None:
    """Preferences pull to and push from domains, and never forbid."""
    state = zones("a1", "b1")
    put(state, make_pod("web", labels={"app": "web"}), "b1")

    def wish(kind: str) -> dict[str, Any]:
        entry = {"weight": 100, "podAffinityTerm": term(ZONE, {"app": "web"})}
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [entry]}}

    assert where(state, make_pod("p", affinity=wish("podAffinity"))) == "b1"
    assert where(state, make_pod("p", affinity=wish("podAntiAffinity"))) == "a1"


def test_pods_spread_over_equal_nodes_in_a_fixed_order() -> None:
    """Pods without requests go where fewest are; the same input gives the same answer."""

    def run() -> list[str | None]:
        state = zones("a", "b", "c")
        found = []
        for index in range(6):
            pod = make_pod(f"p{index}")
            node = where(state, pod)
            assert node is not None
            put(state, pod, node)
            found.append(node)
        return list(found)

    assert run() == run()
    assert Counter(run()) == {"a": 2, "b": 2, "c": 2}


def test_a_pod_that_a_fault_refuses() -> None:
    """The annotation of ``regroup fault unschedulable`` keeps one pod off the node, by name."""
    state = cluster(make_node("a", annotations={"sandbox.regroup.dev/refuse-pods": "d/p, d/q"}))
    assert "refused the pod" in why(state, make_pod("p"))
    assert where(state, make_pod("other")) == "a"
