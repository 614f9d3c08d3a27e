"""How every executable of Regroup ends: an error becomes one line, its hints, and an exit code that scripts can use."""

import os
import sys
from collections.abc import Callable

import click

from regroup.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, CommandFailed


def run(cli: click.Group, *, exit_code: Callable[[CommandFailed], int] = lambda error: error.exit_code) -> None:
    """Run a command line and leave the process. ``exit_code`` says what a failed command ends with."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except CommandFailed as error:
        click.secho(f"error: {error}", fg="red", err=True)
        for hint in error.hints:
            click.echo(f"  {hint}", err=True)
        sys.exit(exit_code(error))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read us has had enough (`| head`); without this the interpreter complains once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
