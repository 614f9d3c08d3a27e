"""``python -m benchmarks [name...]``: runs the questions, prints one JSON document; exit code 1 when a budget is broken.

Without a name all but the large ones, which take many minutes: those have ``LARGE = True`` and are run by their name.
"""

import importlib
import json
import logging
import os
import pkgutil
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import structlog

import benchmarks

_HERE = "--in-this-process"
_NO_QUESTIONS = {"__main__", "load", "meter", "ome_bed", "report"}


def questions() -> list[str]:
    """The names of all benchmarks: every module here that has a ``measure``."""
    return sorted(
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.ispkg and module.name not in _NO_QUESTIONS
    )


def usual() -> list[str]:
    """The questions that are asked where none is named."""
    return [name for name in questions() if not getattr(importlib.import_module(f"benchmarks.{name}"), "LARGE", False)]


def _ask(name: str) -> dict[str, Any]:
    """One question, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks", _HERE, name]
    folder = Path(__file__).parent.parent
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1], "exit_code": done.returncode}
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def main(arguments: list[str]) -> int:
    if arguments[:1] == [_HERE]:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        print(json.dumps(importlib.import_module(f"benchmarks.{arguments[1]}").measure().document()))
        return 0
    unknown = sorted(set(arguments) - set(questions()))
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(questions())}", file=sys.stderr)
        return 2
    results = {}
    for name in arguments or usual():
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        results[name] = _ask(name)
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
    print(json.dumps({"machine": machine, "results": results}, indent=2))
    broken = any("error" in result or not all(budget["kept"] for budget in result["budgets"]) for result in results.values())
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
