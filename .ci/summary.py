"""Counts what the planes' test runs say of themselves: ``python .ci/summary.py FOLDER``.

FOLDER holds ``planes``, one line for each plane with its name, exit code and seconds, and for each that got so far NAME.xml, as
pytest writes it. Prints a line for each plane and ``N passed, N failed`` as the last one; the exit code is 0 only if all of it
passed. A plane that ended early or ran no test is a failure. One that this machine cannot run at all (code 69: no root, no way
to get Go) is told: in CI, where the variable CI is set, that is a failure, elsewhere it is none. REQUIRE_PLANES=1 or 0 says it
either way.
"""

import os
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MANY = 100
"""Where there are more tests than this, their files are named in place of them."""
TIMED_OUT = {124, 137}
UNAVAILABLE = 69


def required() -> bool:
    """Whether every plane must run."""
    said = os.environ.get("REQUIRE_PLANES") or os.environ.get("CI") or "0"
    return said.lower() not in {"0", "false", "no"}


@dataclass(frozen=True)
class Case:
    """One test of one plane."""

    file: str
    name: str
    outcome: str


@dataclass(frozen=True)
class Plane:
    """What came of one plane."""

    name: str
    code: int
    seconds: int
    cases: list[Case]

    @property
    def passed(self) -> int:
        return sum(case.outcome == "passed" for case in self.cases)

    @property
    def failed(self) -> int:
        """Tests that failed; one when the plane itself did, without a test that tells."""
        if self.missing and not required():
            return 0
        failed = sum(case.outcome == "failed" for case in self.cases)
        return failed or int(self.code != 0)

    @property
    def missing(self) -> bool:
        """This machine cannot run it."""
        return self.code == UNAVAILABLE and not self.cases

    def lines(self) -> Iterator[str]:
        if self.missing:
            yield f"{self.name}: NOT RUN, this machine cannot run it (the reason is above), {self.failed} failed"
            return
        state = f"{self.passed} passed, {self.failed} failed"
        skipped = sum(case.outcome == "skipped" for case in self.cases)
        if skipped:
            state += f", {skipped} skipped"
        if self.code in TIMED_OUT:
            state += ", stopped at its time limit"
        elif self.code and not self.cases:
            state += f", ended with code {self.code}"
        yield f"{self.name}: {state} in {self.seconds} s"
        for outcome in ("passed", "failed"):
            names = self._names(outcome, whole=outcome == "passed" and self.passed > MANY)
            if names:
                yield f"  {outcome}: {', '.join(names)}"

    def _names(self, outcome: str, *, whole: bool) -> list[str]:
        cases = [case for case in self.cases if case.outcome == outcome]
        if whole:
            counts = Counter(case.file for case in cases)
            return [f"{file} ({count})" for file, count in sorted(counts.items())]
        return sorted(case.name for case in cases)


def read(folder: Path) -> list[Plane]:
    """The planes in the order in which they ran."""
    found = []
    for line in (folder / "planes").read_text().splitlines():
        name, code, seconds = line.split()
        report = folder / f"{name}.xml"
        cases = list(_cases(report)) if report.exists() else []
        # A plane without a test that ran is no plane; `check` alone has none.
        number = int(code) or (0 if cases or name == "check" else 1)
        found.append(Plane(name, number, int(seconds), cases))
    return found


def _cases(report: Path) -> Iterator[Case]:
    for element in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - pytest has just written it
        kinds = {child.tag for child in element}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        # Package, file and perhaps class, with dots between.
        parts = element.get("classname", "").split(".")
        file = next((part for part in reversed(parts) if part.startswith("test_")), parts[-1])
        yield Case(file, element.get("name", "?"), outcome)


def main(folder: Path) -> int:
    planes = read(folder)
    print()
    for plane in planes:
        print("\n".join(plane.lines()))
    passed, failed = sum(plane.passed for plane in planes), sum(plane.failed for plane in planes)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
