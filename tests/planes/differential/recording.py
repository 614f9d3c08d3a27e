"""What the real server answered, kept beside the table so that the sandbox is judged where there is no Go.

One JSON file a subject, one line an answer: a change of a step is a change of a line.

``python -m tests.planes.differential.recording`` plays the whole table to the real server and writes it anew.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.planes.differential.table import Conversation, load

FOLDER = Path(__file__).parent / "recording"
Recording = dict[str, list[tuple[str, dict[str, Any]]]]
"""By conversation: step and answer."""


def read(subject: str, folder: Path = FOLDER) -> Recording:
    """The recording of a subject; empty when there is none."""
    path = folder / f"{subject}.json"
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: [(step, answer) for step, answer in steps] for name, steps in content.items()}


def write(subject: str, recording: Recording, folder: Path = FOLDER) -> None:
    """Replace the recording of a subject."""
    blocks = []
    for name, steps in recording.items():
        lines = ",\n".join(json.dumps([step, answer], sort_keys=True) for step, answer in steps)
        blocks.append(f"{json.dumps(name)}: [\n{lines}\n]")
    (folder / f"{subject}.json").write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


async def record(conversations: Sequence[Conversation]) -> dict[str, Recording]:
    """Play conversations to the real server: recordings by subject."""
    from tests.planes.differential.servers import real

    found: dict[str, Recording] = {}
    async with real() as player:
        for conversation in conversations:
            answers = await player.play(conversation)
            steps = list(zip(map(str, conversation.steps), answers, strict=True))
            found.setdefault(conversation.subject, {})[conversation.name] = steps
    return found


def main() -> None:
    only = set(sys.argv[1:])
    table = [one for one in load() if not only or one.subject in only]
    recordings = asyncio.run(record(table))
    for subject, recording in recordings.items():
        write(subject, recording)
    stale = {path.stem for path in FOLDER.glob("*.json")} - {one.subject for one in load()}
    for name in stale:
        (FOLDER / f"{name}.json").unlink()
    sys.stdout.write(f"{len(table)} conversations, {sum(len(one.steps) for one in table)} requests recorded\n")


if __name__ == "__main__":
    main()
