"""What a running operator does not carry along (anchor-figures: resident memory)."""

import subprocess
import sys

_PROGRAM = """
import sys
from regroup.cli.main import cli
import click
cli.get_command(click.Context(cli), "run")
print(*sorted({"rich", "pygments", "cryptography", "structlog", "aiohttp"} & set(sys.modules)))
"""


def test_the_operator_does_without_tables_and_certificate_libraries() -> None:
    """``regroup run`` imports neither rich, which structlog would bring along, nor cryptography: 12 MiB of 63."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["aiohttp", "structlog"]
