"""The ``regroup`` command: finds the subcommand, turns errors into one line and an exit code.

Subcommands are imported only when they are called, so that ``--help`` is quick.
"""

import importlib
from collections.abc import Mapping

import click

import regroup
from regroup import lean
from regroup.cli import entry

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("regroup.cli.demo.command", "Play the failure stories on a local cluster and check what must hold."),
    "sandbox": ("regroup.cli.sandbox", "Run a local cluster with the operator inside."),
    "run": ("regroup.cli.run", "Run the operator against a cluster."),
    "explain": ("regroup.cli.explain", "Say what the operator sees and would do for each group, and why."),
    "history": ("regroup.cli.history", "Show past restarts of groups: cause, pod, container, exit code, time."),
    "fault": ("regroup.cli.fault", "Break something in a sandbox: a container, a pod, a node, an image."),
    "manifests": ("regroup.cli.manifests", "Print what a cluster needs to run Regroup."),
}
"""Name, module that defines a click command called ``command``, and the line for ``--help``."""


class LazyGroup(click.Group):
    """A group that imports a subcommand's module only when that subcommand is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        lean.import_structlog()
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name][0]}.command is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Try it without a cluster: `regroup demo`, or `regroup sandbox` and then kubectl in another terminal.",
)
@click.version_option(regroup.__version__, prog_name="regroup")
def cli() -> None:
    """Keeps groups of pods healthy as groups.

    When one pod of a group breaks, Regroup decides whether to rebuild that pod or the whole group, when, how often, and says why.
    """


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the cluster refused or cannot be reached, 130 interrupted."""
    entry.run(cli)
