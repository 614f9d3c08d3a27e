"""Expectations: a pass waits until the cache shows its own last writes, and never for ever (design 4)."""

import asyncio
from datetime import UTC, datetime

import pytest

from regroup.kube.meta import ObjectMeta
from regroup.kube.pod import Pod
from regroup.runtime.clock import LoopClock
from regroup.runtime.expectations import EXPIRY, Expectations
from regroup.runtime.store import Store

pytestmark = pytest.mark.looptime


def _pod(uid: str, *, version: int = 1, deleting: bool = False) -> Pod:
    moment = datetime(2026, 1, 1, tzinfo=UTC) if deleting else None
    meta = ObjectMeta(name=uid, namespace="ns", uid=uid, resource_version=str(version), deletion_timestamp=moment)
    return Pod(metadata=meta)


@pytest.fixture
def store() -> Store[Pod]:
    return Store()


@pytest.fixture
def expectations() -> Expectations[str]:
    return Expectations(clock=LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC)))


async def test_a_created_object_is_waited_for_by_uid(expectations: Expectations[str], store: Store[Pod]) -> None:
    """The key waits until the store knows the UID; an older object of the same name does not count, nor do other keys wait."""
    expectations.expect_created("key", uid="new", by_uid=store.by_uid)
    store.upsert(_pod("old"))

    assert not expectations.satisfied("key")
    assert expectations.satisfied("another key")
    assert expectations.statistics().waiting == 1
    store.upsert(_pod("new"))
    assert expectations.satisfied("key")
    assert expectations.statistics().waiting == 0


async def test_an_object_that_came_and_went_unseen_is_not_waited_for(expectations: Expectations[str], store: Store[Pod]) -> None:
    """The handler that hears of the deletion says so; the key is free at once."""
    expectations.expect_created("key", uid="brief", by_uid=store.by_uid)
    expectations.note_gone("key", uid="brief")
    expectations.note_gone("unknown key", uid="brief")

    assert expectations.satisfied("key")


async def test_a_deletion_is_waited_for_until_it_shows(expectations: Expectations[str], store: Store[Pod]) -> None:
    """Gone from the store, or shown as being deleted."""
    for uid in ("a", "b"):
        store.upsert(_pod(uid))
        expectations.expect_deleted("key", uid=uid, by_uid=store.by_uid)

    assert not expectations.satisfied("key")
    store.remove(_pod("a"))
    assert not expectations.satisfied("key")
    store.upsert(_pod("b", version=2, deleting=True))
    assert expectations.satisfied("key")


@pytest.mark.parametrize(("held", "satisfied"), [(99, False), (100, True), (101, True), (1000, True)])
async def test_an_update_is_waited_for_by_version(
    expectations: Expectations[str], store: Store[Pod], held: int, satisfied: bool
) -> None:
    """The version that we wrote or any later one; versions are numbers, not texts."""
    store.upsert(_pod("a", version=held))
    expectations.expect_version("key", uid="a", resource_version="100", by_uid=store.by_uid)

    assert expectations.satisfied("key") is satisfied


async def test_an_update_of_an_object_that_is_gone_is_not_waited_for(expectations: Expectations[str], store: Store[Pod]) -> None:
    """There is nothing left that could show it."""
    expectations.expect_version("key", uid="a", resource_version="100", by_uid=store.by_uid)

    assert expectations.satisfied("key")


async def test_versions_that_are_no_numbers_must_be_equal(expectations: Expectations[str], store: Store[Pod]) -> None:
    """Versions are opaque on some servers; then only the very same one is known to show our write."""
    store.upsert(Pod(metadata=ObjectMeta(name="a", namespace="ns", uid="a", resource_version="x1")))
    expectations.expect_version("key", uid="a", resource_version="x2", by_uid=store.by_uid)
    assert not expectations.satisfied("key")

    expectations.expect_version("key", uid="a", resource_version="x1", by_uid=store.by_uid)
    assert expectations.satisfied("key"), "a later note on the same object takes the place of the earlier"


async def test_a_lost_event_delays_and_never_wedges(expectations: Expectations[str], store: Store[Pod]) -> None:
    """After half a minute a note is dropped and counted; every note has its own time."""
    expectations.expect_created("key", uid="lost", by_uid=store.by_uid)
    await asyncio.sleep(EXPIRY - 1)
    expectations.expect_created("key", uid="later", by_uid=store.by_uid)
    assert not expectations.satisfied("key")
    await asyncio.sleep(2)
    assert not expectations.satisfied("key")
    assert expectations.statistics().expired == 1
    await asyncio.sleep(EXPIRY)

    assert expectations.satisfied("key")
    assert expectations.statistics().expired == 2
    assert expectations.statistics().waiting == 0


async def test_forget_frees_a_key(expectations: Expectations[str], store: Store[Pod]) -> None:
    """What was noted for an object that is gone is of no use to its successor."""
    expectations.expect_created("key", uid="a", by_uid=store.by_uid)
    expectations.forget("key")
    expectations.forget("never there")

    assert expectations.satisfied("key")
