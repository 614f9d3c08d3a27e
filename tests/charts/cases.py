"""What ``regroup manifests`` can be told, and how the chart is told the same."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from regroup.cli import manifests as command
from regroup.operator.manifests import PARTS
from regroup.wire import yamlish

HOME = "regroup-system"
DIGEST = "sha256:" + "0a" * 32
BUNDLE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
BUNDLE_FILE = "ca.pem"
"""Where a case's arguments have this the test puts a file with ``BUNDLE``."""

Values = Mapping[str, Any]


def only(*parts: str) -> Values:
    return {"create": {part: part in parts for part in PARTS if part != "namespace"}}


CASES: Mapping[str, tuple[list[str], Values]] = {
    "nothing": ([], {}),
    "namespace": (["--namespace", "ops-1"], {}),
    "namespace-of-digits": (["--namespace", "0123"], {}),
    "namespaces": (["--namespaces", "a,0777"], {"namespaces": ["a", "0777"]}),
    "image": (
        ["--image", "registry.example:5000/a/regroup:1.0"],
        {"image": {"repository": "registry.example:5000/a/regroup", "tag": "1.0"}},
    ),
    "image-by-digest": (["--image", f"r.example/b@{DIGEST}"], {"image": {"repository": "r.example/b", "digest": DIGEST}}),
    "replicas": (["--replicas", "10"], {"replicas": 10}),
    "webhook-url": (["--webhook-url", "https://[::1]:9443/a/"], {"webhooks": {"url": "https://[::1]:9443/a/"}}),
    "ca-bundle": (["--ca-bundle", BUNDLE_FILE], {"webhooks": {"caBundle": BUNDLE}}),
    "volcano": (["--scheduler-provider", "volcano"], {"schedulerProvider": "volcano"}),
    "kubernetes": (["--scheduler-provider", "kubernetes"], {"schedulerProvider": "kubernetes"}),
    **{f"only-{part}": (["--only", part], only(part)) for part in PARTS},
    "all": (
        [
            *("--namespace", "ops", "--namespaces", "a,b,c", "--image", "x:1", "--replicas", "1", "--ca-bundle", BUNDLE_FILE),
            *("--webhook-url", "https://10.0.0.1", "--scheduler-provider", "volcano", "--only", "rbac,webhooks,deployment"),
        ],
        {
            "namespaces": ["a", "b", "c"],
            "image": {"repository": "x", "tag": "1"},
            "replicas": 1,
            "webhooks": {"caBundle": BUNDLE, "url": "https://10.0.0.1"},
            "schedulerProvider": "volcano",
            **only("rbac", "webhooks", "deployment"),
        },
    ),
}


def printed(arguments: list[str], folder: Path) -> list[dict[str, Any]]:
    """What the command prints, without the namespace, which is Helm's."""
    bundle = folder / BUNDLE_FILE
    bundle.write_text(BUNDLE)
    words = [str(bundle) if word == BUNDLE_FILE else word for word in arguments]
    result = CliRunner().invoke(command.command, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [one for one in yamlish.load_documents(result.output) if one["kind"] != "Namespace"]


def by_name(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Documents by kind, namespace and name, each once. Texts that are JSON are compared as what they say."""
    found = {f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one for one in documents}
    assert len(found) == len(documents)
    for one in found.values():
        if one["kind"] == "ConfigMap":
            one["data"] = {key: json.loads(text) for key, text in one["data"].items()}
    return found
