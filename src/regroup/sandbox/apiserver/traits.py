"""What single built-in kinds do differently from all others, as far as a client can tell. Pure."""

from regroup.wire.resource import Resource

_Key = tuple[str, str]
_ADMISSION, _RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"

_PUT_CREATES: frozenset[_Key] = frozenset(
    {
        ("", "services"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
        *((_RBAC, name) for name in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")),
    }
)
_VERSIONED: frozenset[_Key] = frozenset(
    {
        ("coordination.k8s.io", "leases"),
        ("policy", "poddisruptionbudgets"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        (_ADMISSION, "mutatingwebhookconfigurations"),
        (_ADMISSION, "validatingwebhookconfigurations"),
    }
)
_ANSWERED_WHOLE: frozenset[_Key] = frozenset(
    {
        ("", "pods"),
        ("", "services"),
        ("", "serviceaccounts"),
        ("", "namespaces"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    }
)
PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


def _key(resource: Resource) -> _Key:
    return resource.group, resource.plural


def put_creates(resource: Resource) -> bool:
    """Whether a PUT of an object that is not there makes it."""
    return _key(resource) in _PUT_CREATES


def must_be_versioned(resource: Resource) -> bool:
    """Whether a PUT must carry a resourceVersion; custom resources always must."""
    return _key(resource) in _VERSIONED


def answered_whole(resource: Resource) -> bool:
    """Whether a deletion is answered with the object, even when it is gone at once."""
    return _key(resource) in _ANSWERED_WHOLE


def is_pod(resource: Resource) -> bool:
    return _key(resource) == ("", "pods")


def is_event(resource: Resource) -> bool:
    """Whether the kind is Event, of either group."""
    return resource.plural == "events" and resource.group in {"", "events.k8s.io"}


def is_deployment(resource: Resource) -> bool:
    return _key(resource) == ("apps", "deployments")


def counts_changes(resource: Resource) -> bool:
    """Whether the generation of the kind moves after creation."""
    return _key(resource) != ("scheduling.k8s.io", "priorityclasses")


def is_namespace(resource: Resource) -> bool:
    return _key(resource) == ("", "namespaces")


def is_definition(resource: Resource) -> bool:
    """Whether the kind is that of CRDs."""
    return _key(resource) == ("apiextensions.k8s.io", "customresourcedefinitions")
