"""Regroup keeps groups of pods healthy as groups.

Packages, from the bottom: ``wire`` (bytes and HTTP), ``kube`` (frozen views of built-in kinds), ``runtime`` (the controller
runtime), ``leaderworkerset`` and ``omenative`` (the two APIs), ``operator`` (puts them together), ``cli``; ``sandbox`` is a
local cluster beside them. Who may import whom is checked by import-linter (``pyproject.toml``).
"""

__version__ = "0.1.0"
