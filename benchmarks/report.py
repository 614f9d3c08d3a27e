"""What a benchmark answers: figures, and the budgets that some of them must keep. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit that one figure must keep."""

    figure: str
    relation: Literal["at most", "at least"]
    limit: float
    before: str = ""
    """What somebody else was measured to need, where that is what the limit comes from."""

    def kept(self, figures: Mapping[str, float]) -> bool:
        value = figures[self.figure]
        return value <= self.limit if self.relation == "at most" else value >= self.limit


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question. Names of figures end in their unit."""

    question: str
    figures: Mapping[str, float]
    budgets: tuple[Budget, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether every budget is kept."""
        return all(budget.kept(self.figures) for budget in self.budgets)

    def document(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "question": self.question,
            "figures": {name: round(value, 3) for name, value in self.figures.items()},
            "budgets": [
                {
                    "figure": budget.figure,
                    "rule": f"{budget.relation} {budget.limit:g}",
                    "measured": round(self.figures[budget.figure], 3),
                    "kept": budget.kept(self.figures),
                    **({"before": budget.before} if budget.before else {}),
                }
                for budget in self.budgets
            ],
        }
