"""Views decode what servers really send."""

import msgspec

from regroup.kube.pod import Pod


def test_null_and_missing_fields_come_out_empty() -> None:
    """C116: labels null and status null are no reason to fall over."""
    pod = msgspec.json.decode(b'{"metadata":{"name":"a","labels":null},"status":null}', type=Pod)

    assert (pod.metadata.labels, pod.metadata.owner_references, pod.phase, pod.restarts) == ({}, (), "", 0)


def test_facts_come_from_the_named_fields() -> None:
    """The controller reference, claims and restarts are found among many fields that we do not name."""
    pod = msgspec.json.decode(
        b'{"metadata":{"name":"a","ownerReferences":[{"kind":"Node","uid":"n"},{"kind":"Pod","controller":true,"uid":"x"}]},'
        b'"spec":{"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{}}}],"hostNetwork":true},'
        b'"status":{"phase":"Running","containerStatuses":[{"name":"c","restartCount":2}],'
        b'"initContainerStatuses":[{"name":"i","restartCount":1}]}}',
        type=Pod,
    )

    assert pod.metadata.controller is not None
    assert pod.metadata.controller.uid == "x"
    assert pod.spec.has_claim
    assert pod.restarts == 3
