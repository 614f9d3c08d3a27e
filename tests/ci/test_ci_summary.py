"""What CI ends with: counts of every plane, and a failure whenever something did not run."""

import subprocess
import sys
from pathlib import Path

import pytest

SUMMARY = Path(__file__).parents[2] / ".ci" / "summary.py"
CASES = {
    "passed": '<testcase classname="tests.planes.test_a" name="test_{0}"/>',
    "failed": '<testcase classname="tests.planes.test_a" name="test_{0}"><failure message="x">y</failure></testcase>',
    "broken": '<testcase classname="tests.planes.test_a" name="test_{0}"><error message="x">y</error></testcase>',
    "skipped": '<testcase classname="tests.planes.test_a" name="test_{0}"><skipped message="x"/></testcase>',
}


def report(folder: Path, plane: str, *outcomes: str) -> None:
    """What pytest writes for tests named by their numbers."""
    cases = "".join(CASES[outcome].format(index) for index, outcome in enumerate(outcomes))
    (folder / f"{plane}.xml").write_text(f'<?xml version="1.0"?><testsuites><testsuite>{cases}</testsuite></testsuites>')


def summary(folder: Path, *planes: str) -> tuple[int, list[str]]:
    """Exit code and lines."""
    (folder / "planes").write_text("".join(f"{line}\n" for line in planes))
    done = subprocess.run([sys.executable, str(SUMMARY), str(folder)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip().splitlines()


def test_all_passed(tmp_path: Path) -> None:
    """The last line sums the planes; each has a line with its time, and one with the names."""
    report(tmp_path, "test", "passed", "passed")
    report(tmp_path, "node", "passed", "skipped")
    code, lines = summary(tmp_path, "check 0 9", "test 0 61", "node 0 5")
    assert code == 0
    assert lines[-1] == "3 passed, 0 failed"
    assert "test: 2 passed, 0 failed in 61 s" in lines
    assert "node: 1 passed, 0 failed, 1 skipped in 5 s" in lines
    assert "  passed: test_0, test_1" in lines


def test_failures_and_errors_count(tmp_path: Path) -> None:
    """A fixture that breaks is a failure as well."""
    report(tmp_path, "test", "passed", "failed", "broken")
    code, lines = summary(tmp_path, "check 0 9", "test 1 61")
    assert (code, lines[-1]) == (1, "1 passed, 2 failed")
    assert "  failed: test_1, test_2" in lines


@pytest.mark.parametrize(
    ("line", "said"), [("node 1 5", "ended with code 1"), ("node 124 540", "stopped at its time limit"), ("node 0 1", "")]
)
def test_a_plane_without_tests_is_a_failure(tmp_path: Path, line: str, said: str) -> None:
    """Not there, stopped before its end, or nothing collected: never a silent success."""
    report(tmp_path, "test", "passed")
    code, lines = summary(tmp_path, "check 0 9", "test 0 61", line)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed")
    assert said in next(entry for entry in lines if entry.startswith("node:"))


def test_stopped_at_its_limit_with_what_it_got_done(tmp_path: Path) -> None:
    """What passed before the limit is counted, and the plane still fails."""
    report(tmp_path, "real", "passed", "passed")
    code, lines = summary(tmp_path, "check 0 9", "real 124 1080")
    assert (code, lines[-1]) == (1, "2 passed, 1 failed")
    assert "real: 2 passed, 1 failed, stopped at its time limit in 1080 s" in lines


def test_checks_that_fail_are_a_failure(tmp_path: Path) -> None:
    """Without one test that failed."""
    report(tmp_path, "test", "passed")
    assert summary(tmp_path, "check 2 9", "test 0 61")[0] == 1


def test_many_tests_are_named_by_their_files(tmp_path: Path) -> None:
    """A page of names tells nobody anything."""
    report(tmp_path, "test", *["passed"] * 101)
    text = (tmp_path / "test.xml").read_text()
    (tmp_path / "test.xml").write_text(
        text.replace('"tests.planes.test_a" name="test_7"', '"tests.kube.test_b.TestC" name="test_7"')
    )
    _, lines = summary(tmp_path, "test 0 61")
    assert "  passed: test_a (100), test_b (1)" in lines


@pytest.mark.parametrize(
    ("required", "in_ci", "demanded"),
    [("", "", False), ("1", "", True), ("", "true", True), ("0", "true", False), ("", "false", False), ("1", "false", True)],
)
def test_a_plane_that_a_machine_cannot_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: str, in_ci: str, demanded: bool
) -> None:
    """Without Go or root: a line says so. In CI it is a failure, and never a silent skip; REQUIRE_PLANES says it either way."""
    monkeypatch.setenv("REQUIRE_PLANES", required)
    monkeypatch.setenv("CI", in_ci)
    report(tmp_path, "test", "passed")
    found, lines = summary(tmp_path, "check 0 9", "test 0 61", "real 69 0")
    assert (found, lines[-1]) == ((1, "1 passed, 1 failed") if demanded else (0, "1 passed, 0 failed"))
    assert any(line.startswith("real: NOT RUN") for line in lines)
