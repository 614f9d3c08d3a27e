"""The environment by which the pods of an Instance know their place (spec/omenative.md 2.3). Pure.

Every regular container gets it, no init container. Ours stand first, so that a template's own variables can refer to them, and a
template's variable of the same name is replaced.
"""

from collections.abc import Sequence
from typing import Any

from regroup.omenative import names
from regroup.omenative.api.replica import InferenceReplica, Runner
from regroup.omenative.keys import LEADER, WORKER
from regroup.omenative.objects.templates import containers
from regroup.omenative.outcome import CreatePod

Object = dict[str, Any]


def variables(replica: InferenceReplica, *, runners: Sequence[Runner], create: CreatePod) -> dict[str, str]:
    """The variables of one pod. ``runners`` are those of the revision that it is made from."""
    size = next((one.size for one in runners if one.name == create.runner), 1) if create.runner == WORKER else 1
    values = {
        "OME_INFERENCESERVICE_NAME": replica.service_name,
        "OME_COMPONENT": replica.spec.component,
        "OME_COMPONENT_REPLICAS": str(replica.spec.replicas),
        "OME_INSTANCE_INDEX": str(create.index),
        "OME_RUNNER": create.runner,
        "OME_RUNNER_SIZE": str(size),
        "OME_RUNNER_INDEX": str(create.ordinal if create.runner == WORKER else 0),
        "OME_INSTANCE_SUBDOMAIN": names.instance_name(replica.name, create.index),
    }
    if any(one.name == LEADER for one in runners):
        leader = names.pod_name(replica.name, create.index, runner=LEADER, ordinal=0)
        values["OME_LEADER_ADDRESS"] = f"{leader}.{names.headless_service(replica.name)}"
        values["OME_INSTANCE_POD_RANK"] = str(create.ordinal + 1 if create.runner == WORKER else 0)
        values["OME_INSTANCE_POD_COUNT"] = str(sum(one.size for one in runners))
    return values


def with_environment(spec: Object, *, replica: InferenceReplica, runners: Sequence[Runner], create: CreatePod) -> Object:
    """``spec`` with our variables in all its regular containers."""
    ours = variables(replica, runners=runners, create=create)
    listed = [{"name": name, "value": value} for name, value in ours.items()]
    made = []
    for container in containers(spec):
        theirs = [one for one in container.get("env") or () if not (isinstance(one, dict) and one.get("name") in ours)]
        made.append({**container, "env": [*listed, *theirs]})
    return {**spec, "containers": made}
