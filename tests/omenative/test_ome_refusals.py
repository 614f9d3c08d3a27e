"""What a refused pod means for its Instance (spec/omenative.md 6.1; cases C63-C65)."""

import pytest

from regroup.omenative.engine.refusals import INVALID, QUOTA, QUOTA_FOREVER, WEBHOOK, classify

_QUOTA = 'pods "a" is forbidden: exceeded quota: q, requested: {}, used: {}, limited: {}'


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (403, _QUOTA.format("pods=1", "pods=4", "pods=4"), QUOTA),
        (403, _QUOTA.format("limits.memory=2Gi,pods=1", "limits.memory=512Mi,pods=0", "limits.memory=1Gi,pods=4"), QUOTA_FOREVER),
        (403, _QUOTA.format("cpu=1500m", "cpu=1", "cpu=2"), QUOTA),
        (403, _QUOTA.format("cpu=2500m", "cpu=0", "cpu=2"), QUOTA_FOREVER),
        (403, "exceeded quota: q, requested: what, used: is, limited: this", QUOTA),
        (422, 'Pod "a" is invalid: spec.containers[0].image: Required value', INVALID),
        (400, "Pod in version v1 cannot be handled", INVALID),
        (403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest"', INVALID),
        (403, 'admission webhook "w.example" denied the request: no', INVALID),
        (500, 'Internal error occurred: failed calling webhook "w.example": connection refused', WEBHOOK),
        (403, 'pods is forbidden: User "u" cannot create resource "pods" in API group ""', None),
        (500, "etcdserver: leader changed", None),
        (429, "too many requests", None),
        (404, 'namespaces "gone" not found', None),
    ],
)
def test_refusals_are_told_apart(code: int, message: str, kind: str | None) -> None:
    """A quota that room may come to, one that no waiting helps, a pod that is not valid, and what is no word on the pod."""
    assert classify(code=code, message=message) == kind
