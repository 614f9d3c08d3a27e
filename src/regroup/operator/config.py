"""What a running operator can be told. Pure; the command line fills it in."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from regroup.leaderworkerset.objects.gang import Provider

NAMESPACE = "regroup-system"
"""Where the operator lives unless told otherwise."""
CONFIG_NAMESPACE = "ome"
"""Where an operator outside the cluster looks for the ConfigMap of OMENative mode."""
LEASE = "regroup"
SECRET = "regroup-webhook-certificate"  # noqa: S105 - the name of a Secret
SERVICE = "regroup-webhook"
SERVICE_ACCOUNT = "regroup"


class ConfigError(ValueError):
    """A setting that cannot be used. The message names the flag, the value and the rule."""


@dataclass(frozen=True, kw_only=True)
class OperatorConfig:
    """One operator process. Times are in seconds; port 0 asks the system for one; port None serves nothing."""

    namespaces: Sequence[str] = ()
    """The namespaces to keep; none means all."""
    home: str = NAMESPACE
    """Where the Lease and the certificate's Secret are."""
    leader_elect: bool = True
    identity: str = "regroup"
    host: str = "0.0.0.0"  # noqa: S104 - probes and API servers come from outside the pod
    metrics_port: int | None = 8080
    webhook_port: int | None = 9443
    webhook_url: str = ""
    """Base URL under which API servers reach our webhooks when we run outside the cluster: then we register them ourselves."""
    certificate_dir: Path | None = None
    """Folder with mounted ``tls.crt`` and ``tls.key``; None: we manage our own."""
    node_loss_grace: float = 60.0
    """How long a node must be lost before its Terminating pods are forced; 0 never forces (spec/leaderworkerset.md Q29)."""
    workers: int = 8
    config_namespace: str = CONFIG_NAMESPACE
    """Where the ConfigMap of OMENative mode is (spec/omenative.md 6.4, 9.35)."""
    scheduler_provider: Provider = Provider.NONE
    """Who schedules groups as gangs (spec/leaderworkerset.md 2.6, 3.6)."""

    def __post_init__(self) -> None:
        for flag, value in (("--metrics-port", self.metrics_port), ("--webhook-port", self.webhook_port)):
            if value is not None and not 0 <= value <= 65535:
                raise ConfigError(f"{flag} {value}: must be between 0 and 65535")
        if self.workers < 1:
            raise ConfigError(f"--workers {self.workers}: must be at least 1")
        if not self.node_loss_grace >= 0:
            raise ConfigError(f"--node-loss-grace {self.node_loss_grace:g}: must be 0 (never force) or more")
        if self.webhook_url and self.webhook_port is None:
            raise ConfigError(f"--webhook-url {self.webhook_url}: there is nothing to register with --no-webhooks")
        if self.webhook_url and self.certificate_dir is not None:
            raise ConfigError(
                f"--webhook-url {self.webhook_url}: registers a CA of its own, which did not sign what is in --certificate-dir "
                f"{self.certificate_dir}; give only one of the two"
            )
        if self.webhook_url:
            try:
                parts = urlsplit(self.webhook_url)
            except ValueError:
                parts = urlsplit("")
            if parts.scheme != "https" or not parts.hostname or not parts.hostname.isascii():
                raise ConfigError(
                    f"--webhook-url {self.webhook_url}: must be an https URL with a host, such as https://127.0.0.1:9443"
                )

    def certificate_names(self) -> list[str]:
        """The names that API servers call the webhook server by."""
        names = [f"{SERVICE}.{self.home}.svc", f"{SERVICE}.{self.home}.svc.cluster.local"]
        host = urlsplit(self.webhook_url).hostname if self.webhook_url else None
        return [host, *names] if host else names
