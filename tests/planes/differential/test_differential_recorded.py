"""Our API server against the recorded answers of Kubernetes' own, conversation by conversation (needs no Go)."""

from collections.abc import Iterator

import pytest
from tests.planes.differential import exceptions, recording, servers
from tests.planes.differential.shape import differences
from tests.planes.differential.table import Conversation, load

TABLE = load()
EXCUSES = exceptions.load()


def compare(
    conversation: Conversation, real: list[tuple[str, dict[str, object]]], ours: list[dict[str, object]]
) -> Iterator[tuple[str, list[exceptions.Excuse]]]:
    """The differences, each as a line, with what excuses it."""
    assert [step for step, _ in real] == [str(step) for step in conversation.steps], (
        "the table has changed: record anew (python -m tests.planes.differential.recording)"
    )
    for index, (step, (_, answer), mine) in enumerate(zip(conversation.steps, real, ours, strict=True)):
        for place, theirs, other in differences(answer, mine):
            line = f"{index + 1}. {step}\n      {place}\n      real {theirs!r}\n      ours {other!r}"
            yield line, [excuse for excuse in EXCUSES if excuse.covers(str(conversation), str(step), place)]


@pytest.mark.looptime
@pytest.mark.parametrize("conversation", TABLE, ids=str)
async def test_the_sandbox_answers_as_kubernetes_does(conversation: Conversation) -> None:
    """Status, reason, causes, body, managedFields, warnings, order of events: equal, or listed in differences.yaml."""
    real = recording.read(conversation.subject).get(conversation.name)
    assert real is not None, "nothing recorded: python -m tests.planes.differential.recording"
    found = [line for line, excused in compare(conversation, real, await servers.sandbox().play(conversation)) if not excused]
    assert not found, f"{len(found)} differences\n   " + "\n   ".join(found)


@pytest.mark.looptime
async def test_no_known_difference_is_stale() -> None:
    """An entry of differences.yaml that excuses nothing any more has to go."""
    used: set[exceptions.Excuse] = set()
    for conversation in TABLE:
        real = recording.read(conversation.subject)[conversation.name]
        for _, excused in compare(conversation, real, await servers.sandbox().play(conversation)):
            used.update(excused)
    assert [excuse for excuse in EXCUSES if excuse not in used] == []


def test_the_table_is_large_enough() -> None:
    """At least 60 conversations with 300 requests (issue 4, item 5)."""
    assert len(TABLE) >= 60
    assert sum(len(one.steps) for one in TABLE) >= 300
