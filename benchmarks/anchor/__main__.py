"""``python -m benchmarks.anchor [name...]``: measures, prints one JSON document, and a table on standard error.

Exit code 1 when a limit is missed. Needs the real control plane (``make test-real`` says how it is had).
"""

import asyncio
import importlib
import json
import os
import pkgutil
import platform
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.planes.realplane.binaries import PlaneUnavailable, find

from benchmarks import anchor
from benchmarks.report import Answer

_PARTS = {"__main__", "audit", "bed", "child", "nodes", "ome"}


def questions() -> list[str]:
    """The names of all questions: every module here that has a ``measure``."""
    return sorted(module.name for module in pkgutil.iter_modules(anchor.__path__) if module.name not in _PARTS)


async def _ask(name: str) -> Answer:
    answer: Answer = await importlib.import_module(f"benchmarks.anchor.{name}").measure()
    return answer


def calibration() -> float:
    """CPU seconds of a fixed piece of work: 0.2 on a quiet machine like the one of the first measurements. Figures of CPU grow
    with it where many processes share few cores."""
    began, total = time.process_time(), 0
    for number in range(3_000_000):
        total += number
    return time.process_time() - began


def _table(results: dict[str, dict[str, Any]]) -> Table:
    """Every figure that has a limit: what the Go controller needs, what is to be reached, and ours."""
    table = Table("question", "figure", "Go", "to reach", "ours", "")
    for name, result in results.items():
        for budget in result.get("budgets", ()):
            verdict = "met" if budget["kept"] else "missed"
            table.add_row(name, budget["figure"], budget.get("before", ""), budget["rule"], f"{budget['measured']:g}", verdict)
        if "error" in result:
            table.add_row(name, "-", "-", "-", "-", result["error"])
    return table


def main(arguments: list[str]) -> int:
    unknown = sorted(set(arguments) - set(questions()))
    if unknown:
        print(f"no such question: {', '.join(unknown)}; there are: {', '.join(questions())}", file=sys.stderr)
        return 2
    try:
        find(build=False)
    except PlaneUnavailable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    results: dict[str, dict[str, Any]] = {}
    for name in arguments or questions():
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        load, before = os.getloadavg()[0], calibration()
        try:
            results[name] = asyncio.run(_ask(name)).document()
        except Exception as error:  # noqa: BLE001 - one question that fails must not lose the answers of the others
            results[name] = {"error": f"{type(error).__name__}: {error}"[:2000]}
        results[name]["load"] = [round(load, 2), round(os.getloadavg()[0], 2)]
        results[name]["calibration_cpu_s"] = [round(before, 3), round(calibration(), 3)]
        print(json.dumps(results[name]), file=sys.stderr, flush=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
    print(json.dumps({"machine": machine, "results": results}, indent=2))
    Console(stderr=True, width=140).print(_table(results))
    missed = any("error" in one or not all(budget["kept"] for budget in one["budgets"]) for one in results.values())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
