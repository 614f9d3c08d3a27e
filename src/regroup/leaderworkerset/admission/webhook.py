"""Admission of LeaderWorkerSets and of their pods, and how a cluster is told to ask us (spec/leaderworkerset.md 2, 3.8).

The handlers are pure but for the key that is drawn for a Hash leader; the rules are in ``defaults``, ``validation``
and ``pod_admission``. Deletions are never asked about, so nothing here can block one.
"""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from regroup.kube.problem import summary
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.admission.gang_validation import scheduling_problems
from regroup.leaderworkerset.admission.pod_admission import PodRefused, mutate_pod
from regroup.leaderworkerset.admission.validation import validate_create, validate_update
from regroup.leaderworkerset.api.defaults import default
from regroup.leaderworkerset.api.types import DEPRECATED_DEFAULT
from regroup.leaderworkerset.keys import GROUP, LEADERWORKERSETS
from regroup.leaderworkerset.objects.gang import Provider
from regroup.runtime.admission import AdmissionRequest, AdmissionResponse, AdmissionServer, allowed, denied, patched
from regroup.runtime.webhooks import Reach, configuration, rule
from regroup.wire.patches import json_patch

MUTATE_LWS = "/mutate-lws"
VALIDATE_LWS = "/validate-lws"
MUTATE_POD = "/mutate-pod"

_KEY_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_KEY_LENGTH = 16
_DOMAIN = "regroup.dev"

Configuration = dict[str, Any]


def register(server: AdmissionServer, *, rng: random.Random | None = None, provider: Provider = Provider.NONE) -> None:
    """Answer our three kinds of reviews on ``server``. ``rng`` draws the keys of Hash groups, the system's by default;
    ``provider`` schedules gangs."""
    server.register(MUTATE_LWS, mutate_lws)
    server.register(VALIDATE_LWS, partial(validate_lws, provider=provider))
    server.register(MUTATE_POD, partial(admit_pod, rng=rng or random.SystemRandom(), provider=provider))


def mutate_lws(request: AdmissionRequest) -> AdmissionResponse:
    """Fill in the defaults."""
    obj = request.object
    if obj is None:
        return allowed()
    return patched(json_patch(obj, default(obj)), warnings=_deprecations(obj))


def validate_lws(request: AdmissionRequest, *, provider: Provider = Provider.NONE) -> AdmissionResponse:
    """Refuse what breaks a rule."""
    obj, old = request.object, request.old_object
    if obj is None:
        return allowed()
    if request.operation == "UPDATE" and old is not None:
        if (obj.get("metadata") or {}).get("deletionTimestamp"):
            return allowed()
        problems = validate_update(obj, old) or scheduling_problems(obj, old, provider=provider)
    else:
        problems = validate_create(obj) or scheduling_problems(obj, provider=provider)
    if not problems:
        return allowed()
    name = (obj.get("metadata") or {}).get("name") or request.name
    message = summary(problems, kind=LEADERWORKERSETS.kind, group=GROUP, name=name)
    return denied(message, causes=[problem.cause() for problem in problems])


def admit_pod(request: AdmissionRequest, *, rng: random.Random, provider: Provider = Provider.NONE) -> AdmissionResponse:
    """Give a new pod of ours its place in the group."""
    pod = request.object
    if pod is None or request.operation != "CREATE":
        return allowed()
    try:
        key = "".join(rng.choices(_KEY_ALPHABET, k=_KEY_LENGTH))
        admitted = mutate_pod(pod, namespace=request.namespace, random_key=key, provider=provider)
        return patched(json_patch(pod, admitted))
    except PodRefused as error:
        return denied(str(error))


def webhook_configurations(
    *,
    name: str,
    service: tuple[str, str] | None = None,
    url: str | None = None,
    ca_bundle: bytes = b"",
    namespaces: Sequence[str] = (),
) -> list[Configuration]:
    """The mutating and the validating configuration, both called ``name``.

    The cluster reaches us by ``service`` (namespace, name) or by the base ``url``: exactly one of them, else ``ValueError``.
    ``namespaces`` limits them to those; none means all.
    """
    reach = Reach(service=service, url=url, ca_bundle=ca_bundle, namespaces=namespaces)
    lws_rule = rule(GROUP, "v1", [LEADERWORKERSETS.plural], ["CREATE", "UPDATE"])
    mutating = [
        reach.webhook(f"mutate.leaderworkerset.{_DOMAIN}", path=MUTATE_LWS, rules=[lws_rule]),
        reach.webhook(
            f"pod.leaderworkerset.{_DOMAIN}",
            path=MUTATE_POD,
            rules=[rule("", "v1", ["pods"], ["CREATE"])],
            more={
                # Only pods of ours: everybody else's do not depend on whether we are up.
                "objectSelector": {"matchExpressions": [{"key": keys.NAME, "operator": "Exists"}]},
                "reinvocationPolicy": "IfNeeded",
            },
        ),
    ]
    validating = [reach.webhook(f"validate.leaderworkerset.{_DOMAIN}", path=VALIDATE_LWS, rules=[lws_rule])]
    return [configuration("Mutating", name=name, webhooks=mutating), configuration("Validating", name=name, webhooks=validating)]


def _deprecations(obj: Mapping[str, Any]) -> list[str]:
    """What the user should know although it works (5.8)."""
    warnings = []
    spec = obj.get("spec")
    template = spec.get("leaderWorkerTemplate") if isinstance(spec, Mapping) else None
    if isinstance(template, Mapping) and template.get("restartPolicy") == DEPRECATED_DEFAULT:
        warnings.append("spec.leaderWorkerTemplate.restartPolicy: Default is deprecated, use None")
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if keys.AFTER_START_EXPERIMENT in annotations:
        warnings.append(
            f"metadata.annotations[{keys.AFTER_START_EXPERIMENT}]: deprecated, use restartPolicy RecreateGroupAfterStart"
        )
    return warnings
