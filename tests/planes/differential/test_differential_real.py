"""The recorded answers against Kubernetes' own API server, played anew."""

from collections import Counter

import pytest
from tests.planes.differential import recording
from tests.planes.differential.shape import differences
from tests.planes.differential.table import load
from tests.planes.realplane.binaries import PlaneUnavailable, find

pytestmark = pytest.mark.real


async def test_the_recording_is_what_kubernetes_answers() -> None:
    """Every answer of the real server has the recorded shape: nothing in the recording is made up or out of date."""
    try:
        find(build=False)
    except PlaneUnavailable as error:
        pytest.fail(f"the real server is asked for and not there: {error}")
    table = load()
    fresh = await recording.record(table)
    found: list[str] = []
    for conversation in table:
        before = recording.read(conversation.subject).get(conversation.name)
        after = fresh[conversation.subject][conversation.name]
        assert before is not None, f"{conversation} is not recorded"
        assert [step for step, _ in before] == [step for step, _ in after], f"{conversation} has changed since it was recorded"
        for (step, recorded), (_, answer) in zip(before, after, strict=True):
            found += [
                f"{conversation}: {step}: {place}: {old!r} is now {new!r}" for place, old, new in differences(recorded, answer)
            ]
    assert not found, f"{len(found)} answers differ: {Counter(line.split(': ')[0] for line in found)}\n" + "\n".join(found[:20])
