"""Controllers, ours against Kubernetes' own: what a client sees of a Deployment, of garbage, budgets, lost nodes and slices."""

import pytest
from tests.planes.differential import living
from tests.planes.differential.lives import LIVES, Life, Transcript
from tests.planes.realplane.binaries import PlaneUnavailable, find


def same_histories(played: Transcript) -> Transcript:
    """Pods with made-up names that came in one step are told apart by what became of them: which of two equal ones goes first is
    drawn, so their numbers are given in the order of their histories."""
    began: dict[str, str] = {}
    for step, seen in played.items():
        for name in seen:
            began.setdefault(name, step)
    alike: dict[tuple[str, str], list[str]] = {}
    for name, step in began.items():
        alike.setdefault((name.partition(" #")[0], step), []).append(name)
    renamed: dict[str, str] = {}
    for (stem, step), names in alike.items():
        ordered = sorted(names, key=lambda name: [seen.get(name, []) for seen in played.values()])
        renamed |= {name: f"{stem}, number {number} of {step!r}" for number, name in enumerate(ordered, start=1)}
    return {step: {renamed[name]: lines for name, lines in seen.items()} for step, seen in played.items()}


def compare(real: Transcript, ours: Transcript) -> list[str]:
    """The steps that differ, each object as a line."""
    assert list(real) == list(ours), "other steps: record anew (python -m tests.planes.differential.living)"
    real, ours = same_histories(real), same_histories(ours)
    return [
        f"{step}: {name}\n      real {real[step].get(name)}\n      ours {ours[step].get(name)}"
        for step in real
        for name in sorted({*real[step], *ours[step]})
        if real[step].get(name) != ours[step].get(name)
    ]


@pytest.mark.looptime
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.name)
async def test_the_sandbox_lives_as_kubernetes_does(life: Life) -> None:
    """Every object goes through the same states in the same step."""
    found = compare(living.recorded()[life.name], await living.on_sandbox(life))
    assert not found, f"{len(found)} differences\n   " + "\n   ".join(found)


@pytest.mark.real
async def test_the_recorded_lives_are_what_kubernetes_shows() -> None:
    """Played anew on Kubernetes' own controllers."""
    try:
        find(build=False)
    except PlaneUnavailable as error:
        pytest.fail(f"the real plane is asked for and not there: {error}")
    played, recorded = await living.on_kubernetes(), living.recorded()
    found = [f"{name}: {line}" for name in played for line in compare(recorded[name], played[name])]
    assert not found, f"{len(found)} differences\n   " + "\n   ".join(found)
