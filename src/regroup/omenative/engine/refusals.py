"""What an API server's refusal of a pod means for its Instance (spec/omenative.md 6.1; cases C63-C65). Pure."""

import re
from contextlib import suppress
from decimal import Decimal

from regroup.wire.codec import parse_quantity

QUOTA = "Quota"
QUOTA_FOREVER = "QuotaForever"
INVALID = "Invalid"
WEBHOOK = "Webhook"
NAME_TAKEN = "NameTaken"

_QUOTA = re.compile(r"requested: (?P<requested>[^:]*), used: (?P<used>[^:]*), limited: (?P<limited>.*)$", re.DOTALL)


def classify(*, code: int, message: str) -> str | None:
    """The kind of a refusal of a create, None for what is no word on the pod: to be tried again with back-off.

    ``code`` is the HTTP code of the answer. A 403 is a quota, a policy on pods, or a right that we lack: the last is no fault of
    the pod.
    """
    if "failed calling webhook" in message:
        return WEBHOOK
    if code == 403 and "exceeded quota" in message:
        return QUOTA_FOREVER if _asks_too_much(message) else QUOTA
    if code in {400, 422}:
        return INVALID
    if code == 403 and "cannot create resource" not in message:
        return INVALID
    if "denied the request" in message:
        return INVALID
    return None


def _asks_too_much(message: str) -> bool:
    """Whether one pod alone wants more of a resource than the quota allows in all: then no waiting helps."""
    found = _QUOTA.search(message)
    if found is None:
        return False
    requested, limited = _amounts(found["requested"]), _amounts(found["limited"])
    return any(amount > limited[name] for name, amount in requested.items() if name in limited)


def _amounts(text: str) -> dict[str, Decimal]:
    amounts: dict[str, Decimal] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        with suppress(ValueError):
            amounts[name] = parse_quantity(value)
    return amounts
