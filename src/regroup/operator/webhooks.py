"""The webhook configurations of both APIs, as they are registered. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.leaderworkerset.admission import webhook as lws_webhook
from regroup.omenative.admission import webhook as ome_webhook
from regroup.runtime.webhooks import Reach

WEBHOOK_CONFIGURATION = "regroup"
"""Name of the mutating and of the validating configuration."""


def configurations(
    *,
    service: tuple[str, str] | None = None,
    url: str | None = None,
    ca_bundle: bytes = b"",
    namespaces: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The mutating and the validating configuration, to be applied.

    The cluster reaches us by ``service`` (namespace, name) or by the base ``url``: exactly one of them, else ``ValueError``.
    """
    reach = Reach(service=service, url=url, ca_bundle=ca_bundle, namespaces=namespaces)
    mutating, validating = lws_webhook.webhook_configurations(
        name=WEBHOOK_CONFIGURATION, service=service, url=url, ca_bundle=ca_bundle, namespaces=namespaces
    )
    return [mutating, {**validating, "webhooks": [*validating["webhooks"], *ome_webhook.webhooks(reach)]}]
