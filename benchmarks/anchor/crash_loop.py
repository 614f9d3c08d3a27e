"""A worker that fails again as soon as its group of 4 is Ready: without a back-off for 20 s, then with ``restartBackoff``.

The Go controller: 78 recreations in 20 s, 1,890 writes (24 each), 113 conflicts. With a back-off of 1 s to 8 s the group must be
recreated exactly when the rule says: 1, 2, 4, 8, 8 s after its leader was made.
"""

import time

from benchmarks.anchor.audit import Write
from benchmarks.anchor.bed import OPERATOR, Bed, Counted
from benchmarks.report import Answer, Budget

SIZE = 4
SECONDS = 20.0
BASE, CAP, ROUNDS = 1, 8, 5


async def _loop(
    bed: Bed, name: str, *, seconds: float = float("inf"), rounds: float = float("inf")
) -> tuple[int, Counted, list[Write]]:
    """Recreations, what the operator wrote for them, and everything that was written."""
    names = [f"{name}-0", *(f"{name}-0-{index}" for index in range(1, SIZE))]
    begin = bed.log.mark()
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end and count < rounds:
        mark = bed.log.mark()
        await bed.fail(names[1 + count % (SIZE - 1)])
        await bed.recreated(mark, names)
        count += 1
    await bed.until_ready(name, 1)
    await bed.settle()
    return count, bed.counted(begin), list(bed.log.since(begin))


def _lateness(writes: list[Write], leader: str) -> list[float]:
    """Seconds by which each deletion of the leader came after its time; negative would be too early."""
    late: list[float] = []
    made: float | None = None
    for write in sorted(writes, key=lambda write: write.received):
        if write.resource != "pods" or write.name != leader:
            continue
        if write.verb == "create" and write.code == 201:
            made = write.answered
        elif write.verb == "delete" and write.user == OPERATOR and made is not None:
            late.append(write.received - made - min(CAP, BASE * 2 ** (len(late) + 1)))
            made = None
    return late


async def measure() -> Answer:
    async with Bed() as bed:
        await bed.create(replicas=1, size=SIZE, name="loop")
        await bed.settle()
        count, counted, _ = await _loop(bed, "loop", seconds=SECONDS)
        backoff = {"restartBackoff": {"baseSeconds": BASE, "capSeconds": CAP}}
        await bed.create(replicas=1, size=SIZE, name="paced", template=backoff)
        await bed.settle()
        _, paced, writes = await _loop(bed, "paced", rounds=ROUNDS)
        late = _lateness(writes, "paced-0")
    return Answer(
        question="a worker that fails again as soon as its group is Ready",
        figures={
            "recreations": count,
            "writes_each": len(counted.writes) / count,
            "conflicts": counted.conflicts,
            "paced_conflicts": paced.conflicts,
            "paced_earliest_s": min(late),
            "paced_latest_s": max(late),
        },
        budgets=(
            Budget("writes_each", "at most", 6, before="24"),
            Budget("conflicts", "at most", 0, before="113"),
            Budget("paced_conflicts", "at most", 0),
            # Creation times have whole seconds: the clock starts up to a second before the leader was made.
            Budget("paced_earliest_s", "at least", -1.0),
            Budget("paced_latest_s", "at most", 0.5),
        ),
    )
