"""Controllers, ours against Kubernetes' own: what a client sees of a Deployment, of garbage, budgets, lost nodes and slices."""

import pytest
from tests.planes.differential import living
from tests.planes.differential.lives import LIVES, Life, Transcript
from tests.planes.realplane.binaries import PlaneUnavailable, find


def compare(real: Transcript, ours: Transcript) -> list[str]:
    """The steps that differ, each object as a line."""
    assert list(real) == list(ours), "other steps: record anew (python -m tests.planes.differential.living)"
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
