"""Types the table's commands with one kubectl to one cluster, each section in a namespace of its own."""

import asyncio
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.planes.kubectl.plain import plain
from tests.planes.kubectl.table import Section, Step

LIMIT = 60.0
"""Seconds for one command."""
PATIENCE = 20.0
"""Seconds for a command to say what is waited for."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command ended with, in plain words: standard output, then standard error."""

    code: int
    text: str


Transcript = list[Said]
"""One for each step of a section."""


class Typist:
    """One kubectl at one cluster. ``home`` is a fresh folder: kubectl keeps what it discovers in it."""

    def __init__(self, binary: str, kubeconfig: str, *, home: Path) -> None:
        self._binary = binary
        self._home = home
        self._config = yaml.safe_load(kubeconfig)
        self.version = 0.0

    async def find_version(self) -> float:
        """The minor version of the kubectl, such as 1.33."""
        _, text, _ = await self._kubectl(["version", "--client", "-o", "json"], environment={})
        client = yaml.safe_load(text)["clientVersion"]
        self.version = float(f"{client['major']}.{client['minor'].rstrip('+')}")
        return self.version

    async def play(self, section: Section) -> Transcript:
        """All steps of a section. The namespace is left to its end."""
        folder = self._home / section.namespace
        folder.mkdir()
        for name, text in section.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        context = {**self._config["contexts"][0]["context"], "namespace": section.namespace}
        config = {**self._config, "contexts": [{**self._config["contexts"][0], "context": context}]}
        (folder / "config").write_text(yaml.safe_dump(config), encoding="utf-8")
        environment = {"KUBECONFIG": str(folder / "config")}
        await self._kubectl(["create", "namespace", section.namespace], environment=environment, cwd=folder)
        said = [await self._step(step, section, folder, environment) for step in section.steps]
        await self._kubectl(["delete", "namespace", section.namespace, "--wait=false"], environment=environment, cwd=folder)
        return said

    async def _step(self, step: Step, section: Section, folder: Path, environment: Mapping[str, str]) -> Said:
        if self.version < step.since:
            return Said(0, "")
        if step.edit:
            editor = folder / "editor"
            editor.write_text(f'#!/bin/sh\nexec sed -i -e {shlex.quote(step.edit)} "$1"\n', encoding="utf-8")
            editor.chmod(0o755)
            environment = {**environment, "KUBE_EDITOR": str(editor)}
        arguments = shlex.split(step.run.replace("$ns", section.namespace))
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            code, output, error = await self._kubectl(arguments, text=step.text, environment=environment, cwd=folder)
            text = plain("\n".join(part for part in (output.strip(), error.strip()) if part), namespace=section.namespace)
            late = asyncio.get_running_loop().time() > deadline
            if not step.until or re.search(step.until, text) or late:
                return Said(code, _kept(text, step))
            await asyncio.sleep(0.2)

    async def _kubectl(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], text: str = "", cwd: Path | None = None
    ) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            self._binary,
            *arguments,
            env={"HOME": str(self._home), "PATH": os.environ.get("PATH", ""), **environment},
            cwd=cwd or self._home,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(LIMIT):
                output, error = await process.communicate(text.encode())
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
        assert process.returncode is not None
        return process.returncode, output.decode(), error.decode()


def _kept(text: str, step: Step) -> str:
    lines = text.splitlines()
    if step.only:
        lines = [line for line in lines if re.search(step.only, line)]
    return "\n".join(sorted(lines) if step.sort else lines)
