"""The benchmarks' own honesty: what a budget says, that the load is what it claims to be, and how broken ones are told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import main, questions
from benchmarks.load import INDEXERS, MemoryServer, events, pod_line
from benchmarks.report import Answer, Budget
from benchmarks.thousand import create

from regroup.kube.pod import Pod
from regroup.wire.codec import decode

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("relation", "value", "kept"),
    [("at most", 6.0, True), ("at most", 6.01, False), ("at least", 6.0, True), ("at least", 5.99, False)],
)
def test_a_budget_is_kept_up_to_its_limit(relation: str, value: float, kept: bool) -> None:
    """The limit itself is allowed; the printed document says rule, figure and verdict."""
    budget = Budget("size", "at most" if relation == "at most" else "at least", 6.0)
    answer = Answer(question="?", figures={"size": value}, budgets=(budget,))

    assert answer.kept is kept
    assert answer.document()["budgets"] == [{"figure": "size", "rule": f"{relation} 6", "measured": value, "kept": kept}]


def test_a_pod_of_the_load_is_a_pod_of_8_kb() -> None:
    """What is measured decodes into our view, has the indexes' values, and is as large as real pods are."""
    line = pod_line(19, version=77)
    pod = decode(line, Pod)

    assert 8000 <= len(line) <= 9000
    assert (pod.metadata.resource_version, pod.ready, pod.restarts) == ("77", True, 0)
    assert len(pod.metadata.uid) == 36
    assert list(INDEXERS["group"](pod)) == list(INDEXERS["group"](decode(pod_line(23, version=1), Pod)))
    assert list(INDEXERS["group"](pod)) != list(INDEXERS["group"](decode(pod_line(24, version=1), Pod)))
    assert list(INDEXERS["node"](pod)) == ["node-19"]


def test_events_are_cut_like_reads_of_a_socket() -> None:
    """Pieces of one size that join to whole lines; pages join to the same pods."""
    pods = [pod_line(number, version=number) for number in range(30)]
    pieces = list(events(pods))

    assert {len(piece) for piece in pieces[:-1]} == {64 * 1024}
    assert [json.loads(line)["object"] for line in b"".join(pieces).splitlines()] == [json.loads(pod) for pod in pods]
    page = json.loads(MemoryServer(pods, version=9, streams_lists=False)._pages[0])
    assert page["items"] == [json.loads(pod) for pod in pods]
    assert "continue" not in page["metadata"]


def test_every_question_is_found_and_an_unknown_one_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Files of their own are questions; a name that is none gets the list of those that are."""
    assert {"flat", "ingest", "memory", "stall", "start"} <= set(questions())
    assert "load" not in questions()

    assert main(["no-such-thing"]) == 2
    assert "no such benchmark: no-such-thing; there are: " in capsys.readouterr().err


def test_the_command_prints_one_json_document() -> None:
    """``python -m benchmarks start`` measures in a process of its own; the exit code says whether the budgets are kept."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "start"], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300
    )
    document = json.loads(done.stdout)

    result = document["results"]["start"]
    assert "error" not in result
    assert result["figures"]["interpreter_s"] < result["figures"]["import_s"]
    assert done.returncode == (0 if all(budget["kept"] for budget in result["budgets"]) else 1)


def test_a_small_thousand_answers() -> None:
    """Issue 3: the benchmark of 1,000 groups of 8, with three groups of 2: all become ready, with few writes and none refused."""
    figures = create(groups=3, size=2)

    assert 0 < figures["virtual_s"] < 30
    assert 2 <= figures["writes_per_group"] <= 4
    assert figures["refused_writes"] == 0
    assert min(figures["peak_mib"], figures["resident_mib"]) > 20
