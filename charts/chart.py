"""Writes ``charts/regroup`` from the manifests: ``make chart``. A test fails while it is stale.

The manifests are made once for every combination of the options that a chart can have, and the templates are what those have in
common, with a choice wherever two differ. So there is one source of truth, and an option that changes something new changes it
here as well.
"""

import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from charts.settings import run_option, schema, values_yaml
from charts.tree import ABSENT, Block, Choice, Text, Tree, choose, mapped, written

from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects.gang import Provider
from regroup.omenative.keys import INFERENCE_REPLICAS, INFERENCE_SERVICES
from regroup.operator.manifests import ManifestOptions, manifests
from regroup.wire import yamlish

FOLDER = Path(__file__).parent / "regroup"
OLDEST_KUBERNETES = "1.27"

# What stands in the manifests where the chart has a value of its user's; nothing else in them looks like it.
_HOME = "helm-release-namespace"
_ONE = "helm-one-namespace"
_IMAGE = "helm-image"
_URL = "https://helm-url.invalid"
_BUNDLE = b"helm-bundle"
_REPLICAS = 7777
_OPTIONS = ManifestOptions(namespace=_HOME, image=_IMAGE, replicas=_REPLICAS)
_FEW = "$.Values.namespaces"
_CERTIFICATES = "/certificates"

_HELPERS = """\
{{/* The image, by digest where there is one. */}}
{{- define "regroup.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else if $image.tag -}}
{{ $image.repository }}:{{ $image.tag }}
{{- else -}}
{{ $image.repository }}
{{- end -}}
{{- end -}}
"""

_NOTES = """\
Regroup {{ .Chart.AppVersion }} keeps the groups of {{ .Values.namespaces | join ", " | default "all namespaces" }}.
{{- if .Values.create.deployment }}

  kubectl -n {{ .Release.Namespace }} rollout status deployment/regroup
{{- if eq (include "regroup.image" .) "@IMAGE@" }}

WARNING: {{ include "regroup.image" . }} comes from no registry. Build and push it, then set image.repository and image.tag.
{{- end }}
{{- if and .Values.webhooks.certificateSecret (not .Values.webhooks.caBundle) (not .Values.webhooks.annotations) }}

WARNING: API servers do not know who signed what is in {{ .Values.webhooks.certificateSecret }}: until webhooks.caBundle or
webhooks.annotations give that CA, everything that the webhooks are asked about is refused.
{{- end }}
{{- end }}

To try it, from a checkout:
  kubectl apply -f src/regroup/leaderworkerset/examples/recreate-group-on-pod-restart.yaml
  kubectl get lws,pods
{{- if and .Values.create.crds .Values.crds.keep }}

helm uninstall leaves the CRDs, and the groups that run. To delete these too begin with the groups, while there is an operator to
take its finalizers off:

  kubectl delete --cascade=foreground --all --all-namespaces @KEPT@
  helm uninstall {{ .Release.Name }} --namespace {{ .Release.Namespace }}
  kubectl delete crd @CRDS@
{{- end }}
"""


def files() -> dict[str, str]:
    """The chart: each file's path below its folder, and its text."""
    crds = manifests(ManifestOptions(), only=["crds"])
    kept = ",".join(f"{one.plural}.{one.group}" for one in (LEADERWORKERSETS, INFERENCE_SERVICES, INFERENCE_REPLICAS))
    names = " ".join(one["metadata"]["name"] for one in crds)
    notes = _NOTES.replace("@IMAGE@", ManifestOptions.image).replace("@KEPT@", kept).replace("@CRDS@", names)
    return {
        "Chart.yaml": _chart_yaml(),
        "values.yaml": values_yaml(),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
        "templates/_helpers.tpl": _HELPERS,
        "templates/NOTES.txt": notes,
        **{f"templates/crds/{one['metadata']['name']}.yaml": _part("crds", [_kept(one)]) for one in crds},
        "templates/rbac.yaml": _part("rbac", _varied("rbac", _plain)),
        "templates/config.yaml": _part("config", [_config(one) for one in _varied("config", _plain)]),
        "templates/webhooks.yaml": _part("webhooks", [_annotated(one) for one in _varied("webhooks", _webhooks)]),
        "templates/deployment.yaml": _part("deployment", [_tuned(one) for one in _varied("deployment", _plain)]),
    }


# -- what the options of `regroup manifests` change

Variant = Callable[[ManifestOptions, str], list[Tree]]


def _varied(part: str, variants: Variant) -> list[Tree]:
    """The documents of a part, with a choice for each option that changes them."""
    few = variants(replace(_OPTIONS, namespaces=(_ONE,)), part)
    documents: list[Tree] = choose(_FEW, few, variants(_OPTIONS, part))
    return [mapped(one, _filled(of_each=_is_of_each(one))) for one in documents]


def _plain(options: ManifestOptions, part: str) -> list[Tree]:
    found: list[Tree] = manifests(options, only=[part])
    for provider in Provider:
        if provider is not Provider.NONE:
            with_it = manifests(replace(options, scheduler_provider=provider), only=[part])
            found = choose(f'eq $.Values.schedulerProvider "{provider}"', with_it, found)
    return found


def _webhooks(options: ManifestOptions, part: str) -> list[Tree]:
    ways = [
        choose("$.Values.webhooks.caBundle", manifests(replace(one, ca_bundle=_BUNDLE), only=[part]), manifests(one, only=[part]))
        for one in (replace(options, webhook_url=_URL), options)
    ]
    found: list[Tree] = choose("$.Values.webhooks.url", *ways)
    return found


def _is_of_each(document: Tree) -> bool:
    """Whether there is such a document in each of the chosen namespaces."""
    whole = document.yes if isinstance(document, Choice) else document
    return whole is not ABSENT and whole["metadata"].get("namespace") == _ONE


def _filled(*, of_each: bool) -> Callable[[Tree], Tree]:
    """Puts what Helm knows where the marks stand; in a document of each namespace ``.`` is that namespace."""
    bundle = manifests(replace(_OPTIONS, ca_bundle=_BUNDLE), only=["webhooks"])[-1]["webhooks"][0]["clientConfig"]["caBundle"]

    def fill(value: Tree) -> Tree:
        if value == [_ONE]:
            return Block(_FEW)
        if value == _ONE:
            return Text(". | quote" if of_each else f'join "," {_FEW} | quote')
        if value == _HOME:
            return Text("$.Release.Namespace | quote")
        if value == _IMAGE:
            return Text('include "regroup.image" $ | quote')
        if value == bundle:
            return Text("b64enc $.Values.webhooks.caBundle | quote")
        if value == _REPLICAS:
            return Text("int $.Values.replicas")
        if isinstance(value, str) and value.startswith(_URL):
            return Text(f'printf "%s%s" (trimSuffix "/" $.Values.webhooks.url) {json.dumps(value.removeprefix(_URL))} | quote')
        return value

    return fill


# -- what a user of Helm can set beyond that


def _kept(document: Tree) -> Tree:
    keeping = {**document["metadata"], "annotations": {"helm.sh/resource-policy": "keep"}}
    return choose("$.Values.crds.keep", {**document, "metadata": keeping}, document)


def _config(document: Tree) -> Tree:
    return {**document, "data": {key: Text(f"toPrettyJson $.Values.config.{key} | quote") for key in document["data"]}}


def _annotated(document: Tree) -> Tree:
    if isinstance(document, Choice) or "webhooks" not in document:
        return document
    annotations = "$.Values.webhooks.annotations"
    return {**document, "metadata": {**document["metadata"], "annotations": Choice(annotations, Block(annotations), ABSENT)}}


def _where_set(**expressions: str) -> dict[str, Tree]:
    return {key: Choice(one, Block(one), ABSENT) for key, one in expressions.items()}


def _tuned(document: Tree) -> Tree:
    template = document["spec"]["template"]
    (container,) = template["spec"]["containers"]
    secret = "$.Values.webhooks.certificateSecret"
    pull, priority = "$.Values.image.pullPolicy", "$.Values.priorityClassName"
    flags = [
        ("--node-loss-grace", "float64 $.Values.nodeLossGrace", f"{run_option('node_loss_grace'):.1f}"),
        ("--workers", "int $.Values.workers", str(run_option("workers"))),
        ("--log-level", "$.Values.logLevel", json.dumps(run_option("log_level"))),
    ]
    args = [
        *container["args"],
        *(
            Choice(f"ne ({expression}) {default}", one, ABSENT)
            for flag, expression, default in flags
            for one in (flag, Text(f"{expression} | quote"))
        ),
        *(Choice(secret, one, ABSENT) for one in ("--certificate-dir", _CERTIFICATES)),
    ]
    mount = {"name": "certificates", "mountPath": _CERTIFICATES, "readOnly": True}
    volume = {"name": "certificates", "secret": {"secretName": Text(f"{secret} | quote")}}
    container = {
        **container,
        "imagePullPolicy": Choice(pull, Text(pull), ABSENT),
        "args": args,
        "resources": Block("$.Values.resources"),
        "volumeMounts": [*container["volumeMounts"], Choice(secret, mount, ABSENT)],
    }
    spec = {
        **template["spec"],
        **_where_set(
            imagePullSecrets="$.Values.imagePullSecrets",
            nodeSelector="$.Values.nodeSelector",
            tolerations="$.Values.tolerations",
            affinity="$.Values.affinity",
            topologySpreadConstraints="$.Values.topologySpreadConstraints",
        ),
        "priorityClassName": Choice(priority, Text(f"{priority} | quote"), ABSENT),
        "containers": [container],
        "volumes": [*template["spec"]["volumes"], Choice(secret, volume, ABSENT)],
    }
    meta = {**template["metadata"], **_where_set(annotations="$.Values.podAnnotations")}
    return {**document, "spec": {**document["spec"], "template": {"metadata": meta, "spec": spec}}}


# -- files


def _part(part: str, documents: Sequence[Tree]) -> str:
    return f"{{{{- if $.Values.create.{part} }}}}\n{''.join(map(_document, documents))}{{{{- end }}}}\n"


def _document(document: Tree) -> str:
    if not isinstance(document, Choice):
        return f"---\n{written(document)}"
    if document.yes is ABSENT:
        return f"{{{{- if not ({document.condition}) }}}}\n{_document(document.no)}{{{{- end }}}}\n"
    if document.no is not ABSENT:
        raise TypeError(f"two documents of one name that have nothing in common: {document}")
    if document.condition == _FEW and _was_of_each(document.yes):
        return f"{{{{- range {_FEW} }}}}\n---\n{written(document.yes)}{{{{- end }}}}\n"
    return f"{{{{- if {document.condition} }}}}\n{_document(document.yes)}{{{{- end }}}}\n"


def _was_of_each(document: Tree) -> bool:
    return bool(document["metadata"].get("namespace") == Text(". | quote"))


def _chart_yaml() -> str:
    project: dict[str, Any] = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return yamlish.dump(
        {
            "apiVersion": "v2",
            "name": FOLDER.name,
            "description": project["description"],
            "type": "application",
            "version": project["version"],
            "appVersion": project["version"],
            "kubeVersion": f">={OLDEST_KUBERNETES}.0-0",
            "keywords": project["keywords"],
        }
    )


def write(folder: Path = FOLDER) -> None:
    """Write the chart, and take away what is no longer of it."""
    wanted = files()
    for path in [one for one in folder.rglob("*") if one.is_file()]:
        if str(path.relative_to(folder)) not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
    print(FOLDER, file=sys.stderr)
