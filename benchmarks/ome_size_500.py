"""``ome_size`` with 500 services: 2,000 Instances of 4 pods. Several minutes; asked by its name only."""

from benchmarks.ome_size import compare
from benchmarks.report import Answer

LARGE = True
SIZES = (50, 100, 200, 500)


def measure() -> Answer:
    return compare(*SIZES)
