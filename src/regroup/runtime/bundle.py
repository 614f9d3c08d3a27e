"""The certificates of the admission server as texts, and how to have them judged without reading them here."""

import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

RENEW_BEFORE = timedelta(days=60)
"""A certificate with less than this to live is replaced."""
_LIMIT = 60.0
"""Seconds that a verdict may take."""


class Bundle(msgspec.Struct, frozen=True):
    """PEM texts. ``ca`` may hold several certificates: what API servers shall trust."""

    ca: bytes
    ca_key: bytes
    certificate: bytes
    key: bytes


class Question(msgspec.Struct, frozen=True):
    """Is ``bundle`` good for ``names`` (DNS names or IP addresses) at ``now``? None: there is none yet."""

    bundle: Bundle | None
    names: Sequence[str]
    now: datetime


class Verdict(msgspec.Struct, frozen=True):
    """``bundle`` is the one to serve with: that of the question while it is good. It stays good from ``since`` to ``until``."""

    bundle: Bundle
    since: datetime
    until: datetime


def ask(question: Question) -> Verdict:
    """Have ``issuing`` answer in a process of its own, which takes its memory along when it ends. Takes a quarter of a second,
    and is asked when a process starts and when certificates change, which is once in months.

    Raises ``OSError`` when no process can be had or it fails.
    """
    command = [sys.executable, "-m", "regroup.runtime.issuing"]
    asked = msgspec.json.encode(question)
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=_LIMIT, check=False)  # noqa: S603 - ourselves
    except subprocess.TimeoutExpired as error:
        raise OSError(f"certificates were not judged within {_LIMIT:g} s") from error
    if done.returncode != 0:
        raise OSError(f"certificates could not be judged: {done.stderr.decode(errors='replace')[-500:]}")
    return msgspec.json.decode(done.stdout, type=Verdict)
