"""JSON is taken in, and kept, as a Go API server does; every expectation was seen on Kubernetes 1.36.3."""

from typing import Any

import pytest

from regroup.sandbox.kinds.tables import TABLE
from regroup.sandbox.schema.decoding import DecodeFailure, decode, zero
from regroup.sandbox.schema.quantity import QuantityError, canonical

POD = TABLE.message("Pod")


def pod(spec: Any, *, bar: int | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec} | ({} if bar is None else {"bar": bar})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1000m", "1"),
        ("1e3", "1e3"),
        ("1.5e3", "1500"),
        ("12000e3", "12e6"),
        ("1.5Gi", "1536Mi"),
        ("0.1m", "1m"),
        ("1n", "1m"),
        ("1000", "1k"),
        ("1000k", "1M"),
        ("1500Ki", "1500Ki"),
        ("0.001Ki", "1024m"),
        ("0.5Ki", "512"),
        ("1048576", "1048576"),
        ("0Mi", "0"),
        ("-5", "-5"),
        ("100000000000000Ei", "9223372036854775807"),
        (5, "5"),
        (1.5, "1500m"),
    ],
)
def test_a_quantity_has_one_form(given: Any, kept: Any) -> None:
    """Whatever way an amount is written, it is given back in the canonical form."""
    assert canonical(given) == kept


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "--1", "1Zi", "1e", "Mi"])
def test_text_that_is_no_quantity_is_refused(text: Any) -> None:
    with pytest.raises(QuantityError):
        canonical(text)


def test_unknown_fields_fall_away_and_are_named_with_their_places() -> None:
    kept, unknown = decode(POD, pod({"foo": 1, "volumes": [{"name": "x", "zzz": {}}]}, bar=2))
    assert unknown == ["spec.foo", "spec.volumes[0].zzz", "bar"]
    assert "foo" not in kept["spec"]
    assert kept["spec"]["volumes"] == [{"name": "x"}]


def test_what_go_would_not_send_is_not_kept() -> None:
    """Nulls, empty lists and maps, and zero values of fields that are no pointers go; zero behind a pointer stays."""
    spec = {
        "hostNetwork": False,
        "nodeSelector": {},
        "tolerations": [],
        "hostname": "",
        "priority": 0,
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": None,
        "containers": [{"name": "c", "env": [{"name": "A", "value": ""}]}],
    }
    kept, _ = decode(POD, pod(spec))
    assert kept["spec"] == {
        "containers": [{"name": "c", "env": [{"name": "A"}], "resources": {}}],
        "terminationGracePeriodSeconds": 0,
        "priority": 0,
    }


def test_structs_are_kept_empty_and_times_null() -> None:
    condition = zero(TABLE.message("PodCondition"))
    assert condition == {"type": "", "status": "", "lastProbeTime": None, "lastTransitionTime": None}
    assert zero(TABLE.message("StatefulSet"))["status"] == {"replicas": 0, "availableReplicas": 0}


def test_decoding_twice_changes_nothing() -> None:
    kept, _ = decode(POD, pod({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1000m"}}}]}))
    assert decode(POD, kept) == (kept, [])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("x", "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"containers": "x"},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"containers": [{"name": 1}]},
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            {"terminationGracePeriodSeconds": "5"},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            {"terminationGracePeriodSeconds": 1.5},
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            {"priority": 3000000000},
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"nodeSelector": {"a": True}},
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.nodeSelector of type string",
        ),
        ({"hostNetwork": "yes"}, "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        (
            {"containers": [{"resources": {"limits": {"cpu": "x"}}}]},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_a_wrong_type_ends_the_request_in_the_decoders_words(spec: Any, message: Any) -> None:
    with pytest.raises(DecodeFailure) as caught:
        decode(POD, pod(spec))
    assert str(caught.value) == message


@pytest.mark.parametrize(("data", "position"), [("###", 0), ("YQ=", 3)])
def test_base64_is_checked(data: Any, position: Any) -> None:
    secret = {"metadata": {}, "data": {"a": data}}
    with pytest.raises(DecodeFailure, match=f"^illegal base64 data at input byte {position}$"):
        decode(TABLE.message("Secret"), secret)


def test_times_have_their_layouts() -> None:
    lease = TABLE.message("Lease")
    kept, _ = decode(lease, {"metadata": {}, "spec": {"renewTime": "2020-01-01T01:00:00.100000+01:00"}})
    assert kept["spec"]["renewTime"] == "2020-01-01T00:00:00.100000Z"
    with pytest.raises(DecodeFailure, match=r'cannot parse "\.1Z" as "\.000000"$'):
        decode(lease, {"spec": {"renewTime": "2020-01-01T00:00:00.1Z"}})
    with pytest.raises(DecodeFailure, match=r'^parsing time "x" as "2006-01-02T15:04:05Z07:00"'):
        decode(POD, {"metadata": {"creationTimestamp": "x"}})
