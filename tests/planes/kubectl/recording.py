"""What Kubernetes let kubectl say, by section: the sandbox is compared with it where there is no Kubernetes.

``python -m tests.planes.kubectl.recording`` plays the table to the real control plane and writes the record anew.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.planes.kubectl.clusters import kubernetes
from tests.planes.kubectl.table import Section, load
from tests.planes.kubectl.typist import Said, Transcript, Typist
from tests.sandbox import kubectl_binaries

FILE = Path(__file__).parent / "recording" / "kubectl.jsonl"


def recorded() -> tuple[float, dict[str, list[tuple[str, Said]]]]:
    """The version of the kubectl that was recorded, and what it said: commands and answers by section."""
    head, *lines = FILE.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[tuple[str, Said]]] = {}
    for line in lines:
        section, command, code, text = json.loads(line)
        found.setdefault(section, []).append((command, Said(code, text)))
    return float(json.loads(head)["kubectl"]), found


def write(version: float, played: list[tuple[Section, Transcript]]) -> None:
    lines = [
        json.dumps([str(section), str(step), said.code, said.text])
        for section, transcript in played
        for step, said in zip(section.steps, transcript, strict=True)
    ]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text("\n".join([json.dumps({"kubectl": version}), *lines]) + "\n", encoding="utf-8")


async def _record(home: Path) -> int:
    async with kubernetes() as config:
        typist = Typist(kubectl_binaries.find("package"), config, home=home)
        version = await typist.find_version()
        played = [(section, await typist.play(section)) for section in load()]
    write(version, played)
    return sum(len(transcript) for _, transcript in played)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"{asyncio.run(_record(Path(folder)))} commands recorded\n")
