"""``python -m regroup.cli``: the ``regroup`` command where scripts are not on the path."""

from regroup.cli.main import main

main()
