"""Names (spec/omenative.md 2.1)."""

import re

from hypothesis import given
from hypothesis import strategies as st

from regroup.omenative import names

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def test_names_are_those_of_the_table() -> None:
    """2.1, and the seed's example pod."""
    replica = names.replica_name("qwen3-0-6b", "engine")
    assert replica == names.stable_service(replica) == "qwen3-0-6b-engine"
    assert names.headless_service(replica) == "qwen3-0-6b-engine-headless"
    assert names.revision_service(replica, "0a1b2c3d") == "qwen3-0-6b-engine-rev-0a1b2c3d"
    assert names.revision_headless_service(replica, "0a1b2c3d") == "qwen3-0-6b-engine-rev-0a1b2c3d-headless"
    assert names.revision_name(replica, "0a1b2c3d") == "qwen3-0-6b-engine-0a1b2c3d"
    assert names.instance_name(replica, 2) == "qwen3-0-6b-engine-2"
    assert names.pod_name(replica, 0, runner="default", ordinal=0) == "qwen3-0-6b-engine-0-default-0"
    assert names.pod_name(replica, 0, runner="worker", ordinal=2) == "qwen3-0-6b-engine-0-worker-2"


def test_long_names_are_cut_with_a_stable_hash_and_keep_their_end() -> None:
    """2.1: names must stay valid DNS labels; shorten with a stable hash suffix."""
    one, two = "a" * 80 + "-engine", "a" * 81 + "-engine"
    made = names.headless_service(one)
    assert made == names.headless_service(one)
    assert len(made) <= 63
    assert made.endswith("-headless")
    assert made != names.headless_service(two), "two long names stay apart"


@given(
    st.from_regex(r"[a-z]([-a-z0-9]{0,70}[a-z0-9])?", fullmatch=True),
    st.integers(min_value=0, max_value=99999),
    st.integers(min_value=0, max_value=999),
)
def test_every_name_is_a_dns_label(service: str, index: int, ordinal: int) -> None:
    """2.1: at most 63 characters, and valid."""
    replica = names.replica_name(service, "decoder")
    for name in (
        names.stable_service(replica),
        names.headless_service(replica),
        names.revision_service(replica, "0a1b2c3d"),
        names.revision_headless_service(replica, "0a1b2c3d"),
        names.instance_name(replica, index),
        names.pod_name(replica, index, runner="worker", ordinal=ordinal),
    ):
        assert len(name) <= 63
        assert DNS_LABEL.fullmatch(name), name
