"""``regroup manifests``: print what a cluster needs, ready for ``kubectl apply -f -``."""

from pathlib import Path

import click

from regroup.cli.values import https_url, name_list, namespace, namespaces
from regroup.leaderworkerset.objects.gang import Provider
from regroup.operator import manifests
from regroup.operator.config import NAMESPACE
from regroup.wire import yamlish


def _parts(_: click.Context, __: click.Parameter, value: str | None) -> list[str]:
    parts = name_list(value)
    unknown = [part for part in parts if part not in manifests.PARTS]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: choose from {', '.join(manifests.PARTS)}")
    return [name for name in manifests.PARTS if name in parts]


def _pem(_: click.Context, __: click.Parameter, value: Path | None) -> bytes:
    if value is None:
        return b""
    try:
        content = value.read_bytes()
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}") from error
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise click.BadParameter(f"{value}: holds no certificate in PEM")
    return content


@click.command(
    "manifests",
    epilog="""\b
Examples:
  regroup manifests | kubectl apply --server-side -f -
  regroup manifests --only crds,rbac
  regroup manifests --namespaces inference,training --image registry.example/regroup:1.0""",
)
@click.option("--only", callback=_parts, metavar="PART,...", help=f"Only these parts: {', '.join(manifests.PARTS)}.")
@click.option(
    "--namespace", "home", default=NAMESPACE, show_default=True, callback=namespace, help="The operator's own namespace."
)
@click.option(
    "--namespaces",
    metavar="NAME,...",
    callback=namespaces,
    help="Keep only these namespaces, with Roles in each in place of a ClusterRole.",
)
@click.option("--image", default=manifests.ManifestOptions.image, show_default=True, help="The operator's image.")
@click.option(
    "--replicas",
    default=manifests.ManifestOptions.replicas,
    show_default=True,
    type=click.IntRange(1, 10),
    help="Operators: one leads, all answer webhooks.",
)
@click.option(
    "--webhook-url",
    default="",
    metavar="URL",
    callback=https_url,
    help="Webhooks by URL, for an operator that runs outside the cluster.",
)
@click.option(
    "--ca-bundle",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_pem,
    help="PEM file that API servers shall trust.",
)
@click.option(
    "--scheduler-provider",
    type=click.Choice([str(one) for one in Provider]),
    default=str(Provider.NONE),
    show_default=True,
    help="Who places groups as gangs: as `regroup run` is told, with the rights for it.",
)
def command(
    *,
    only: list[str],
    home: str,
    namespaces: list[str],
    image: str,
    replicas: int,
    webhook_url: str,
    ca_bundle: bytes,
    scheduler_provider: str,
) -> None:
    """Print CRDs, rights, webhooks and the Deployment as YAML."""
    options = manifests.ManifestOptions(
        namespace=home,
        image=image,
        replicas=replicas,
        namespaces=namespaces,
        webhook_url=webhook_url,
        ca_bundle=ca_bundle,
        scheduler_provider=Provider(scheduler_provider),
    )
    documents = manifests.manifests(options, only=only)
    click.echo("---\n".join(yamlish.dump(document) for document in documents), nl=False)
