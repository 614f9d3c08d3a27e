"""Stories of what a failure leads to under RecreateGroupOnPodRestart and None, each on the seed's own manifest."""

from collections.abc import Sequence

from regroup.cli.demo.group_checks import (
    PODS_IN_ALL,
    REBUILD_LIMIT,
    SIZE,
    START_LIMIT,
    changed_names,
    check_rebuilt,
    group_of,
    rebuilt,
    replaced,
    tell,
)
from regroup.cli.demo.stage import Member, Stage, all_ready, uids
from regroup.kube.resources import PODS

NODE_LIMIT = 900.0
"""A lost node: 50 s until it counts as lost, 300 s of toleration, the grace of its pods, and 60 s until they are forced."""


async def recreate_group(stage: Stage) -> None:
    """RecreateGroupOnPodRestart: one failure rebuilds the whole group, and no other."""
    stage.screen.say("  Tightly coupled hosts: when one pod of a group fails, the whole group starts afresh.")
    await stage.apply_example("recreate-group-on-pod-restart.yaml")
    before = await stage.until("both groups become Ready", all_ready(PODS_IN_ALL), limit=START_LIMIT)
    stage.check("2 leaders and 6 workers are Ready", len(before) == PODS_IN_ALL)

    victim = before[2].name
    stage.screen.say(f"\n  The container of {victim} exits with code 3.")
    await stage.hands.crash(stage.namespace, victim, exit_code=3)
    after = await rebuilt(stage, before, group="0")
    check_rebuilt(stage, before, after, group="0")
    await tell(stage, "RecreateGroup", naming=victim)

    victim = after[SIZE + 1].name
    stage.screen.say("\n  Somebody deletes a worker of group 1.")
    stage.screen.command(f"kubectl delete pod -n {stage.namespace} {victim}")
    await stage.client.delete(PODS, victim, namespace=stage.namespace, uid=after[SIZE + 1].uid)
    before, after = after, await rebuilt(stage, after, group="1")
    check_rebuilt(stage, before, after, group="1")
    await tell(stage, "RecreateGroup", naming=victim)

    if stage.hands.loses_nodes:
        await _lose_a_node_of_groups(stage, after)


async def _lose_a_node_of_groups(stage: Stage, after: Sequence[Member]) -> None:
    lost = after[1].node
    groups = sorted({group_of(member) for member in after if member.node == lost})
    stage.screen.say(f"\n  Node {lost} is cut off: its kubelet is silent. It hosts members of group {' and '.join(groups)}.")
    await stage.hands.node_down(lost)
    before = after
    after = await stage.until(
        "every group with a pod there is rebuilt on healthy nodes",
        lambda members: (
            all_ready(PODS_IN_ALL)(members)
            and not {member.uid for member in members if group_of(member) in groups} & set(uids(before).values())
        ),
        limit=NODE_LIMIT,
    )
    stage.check("no pod is on the lost node", all(member.node != lost for member in after if group_of(member) in groups))
    untouched = [member for member in before if group_of(member) not in groups]
    stage.check(
        "groups without a pod there were left alone", all(uids(after).get(member.name) == member.uid for member in untouched)
    )
    await stage.hands.node_up(lost)


async def only_the_pod(stage: Stage) -> None:
    """None: only the failed pod is restarted or replaced."""
    stage.screen.say("  Loosely coupled workers: only what failed is repaired, the others keep running.")
    await stage.apply_example("none.yaml")
    before = await stage.until("both groups become Ready", all_ready(PODS_IN_ALL), limit=START_LIMIT)
    stage.check("2 leaders and 6 workers are Ready", len(before) == PODS_IN_ALL)

    victim = before[2].name
    stage.screen.say(f"\n  The container of {victim} exits with code 1: the kubelet restarts it in place.")
    await stage.hands.crash(stage.namespace, victim, exit_code=1)
    after = await stage.until(
        "the container runs again",
        lambda members: all_ready(PODS_IN_ALL)(members) and any(member.pod.restarts for member in members),
        limit=REBUILD_LIMIT,
    )
    stage.check("no pod was replaced", uids(before) == uids(after))

    for position, role in ((1, "worker"), (0, "leader")):
        target = after[position]
        stage.screen.say(f"\n  Somebody deletes the {role} {target.name}.")
        stage.screen.command(f"kubectl delete pod -n {stage.namespace} {target.name}")
        await stage.client.delete(PODS, target.name, namespace=stage.namespace, uid=target.uid)
        before = after
        after = await stage.until(
            f"a new {target.name} is Ready",
            replaced(target),
            limit=REBUILD_LIMIT,
        )
        stage.check(f"only {target.name} has a new UID", changed_names(before, after) == {target.name})

    if stage.hands.loses_nodes:
        await _lose_a_node_of_pods(stage, after)


async def _lose_a_node_of_pods(stage: Stage, after: Sequence[Member]) -> None:
    lost = after[1].node
    there = {member.name for member in after if member.node == lost}
    stage.screen.say(f"\n  Node {lost} is cut off. It hosts {', '.join(sorted(there))}.")
    await stage.hands.node_down(lost)
    before = after
    after = await stage.until(
        "its pods run on other nodes",
        lambda members: all_ready(PODS_IN_ALL)(members) and there <= changed_names(before, members),
        limit=NODE_LIMIT,
    )
    stage.check("only the pods of that node were replaced", changed_names(before, after) == there)
    stage.check("no pod is on the lost node", all(member.node != lost for member in after))
    await stage.hands.node_up(lost)
