"""The values that the chart takes: name, default, what may stand there, and what it is for. Pure.

``values.yaml`` and ``values.schema.json`` are both written from this table. Defaults and limits are the code's own wherever it
has them: those of ``regroup manifests`` and ``regroup run``, the shipped ConfigMap, and the objects that the manifests hold.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click
import msgspec

from regroup.cli import manifests as manifests_command
from regroup.cli import run as run_command
from regroup.cli.values import _LABEL
from regroup.leaderworkerset.objects.gang import Provider
from regroup.omenative.api import durations
from regroup.omenative.api.lifecycle import UPDATE_STRATEGIES
from regroup.omenative.configuration import config
from regroup.omenative.configuration.chart import config_data
from regroup.omenative.keys import COMPONENTS
from regroup.operator.manifests import PARTS, ManifestOptions, deployment
from regroup.wire import yamlish

Schema = dict[str, Any]
Type = TypeVar("Type", bound="click.ParamType[Any]")

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
_COUNT: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^(100|[0-9]{1,2})%$"}]}
_QUANTITY: Schema = {
    "type": ["string", "number"],
    "pattern": r"^[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$",
    "exclusiveMinimum": 0,
}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": _QUANTITY}
_TOLERATION: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "key": TEXT,
        "operator": {"enum": ["Equal", "Exists", "Lt", "Gt"]},
        "value": TEXT,
        "effect": {"enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"]},
        "tolerationSeconds": {"type": "integer"},
    },
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One value; ``about`` is the comment above it. A group of values has ``inner`` ones in place of a default."""

    name: str
    about: str
    schema: Schema | None = None
    default: Any = None
    inner: Sequence["Setting"] = ()


def option(command: click.Command, name: str) -> click.Option:
    """An option of a command by its parameter's name."""
    (found,) = [one for one in command.params if isinstance(one, click.Option) and one.name == name]
    return found


def _type(command: click.Command, name: str, kind: type[Type]) -> Type:
    found = option(command, name).type
    if not isinstance(found, kind):
        raise TypeError(f"--{name} is no {kind.__name__}")
    return found


def is_a(pattern: str) -> Schema:
    """Text that is empty or looks like ``pattern``."""
    return {"type": "string", "pattern": f"^({pattern})?$"}


def run_option(name: str) -> Any:
    """The default of an option of `regroup run`."""
    return option(run_command.command, name).default


def _settings() -> Iterator[Setting]:
    repository, tag = ManifestOptions.image.rsplit(":", 1)
    container = deployment(ManifestOptions())[0]["spec"]["template"]["spec"]["containers"][0]
    replicas = _type(manifests_command.command, "replicas", click.IntRange)
    levels = _type(run_command.command, "log_level", click.Choice)
    yield Setting(
        name="image",
        about="The operator's image. There is no public one: build it from the Dockerfile and push it to your registry.",
        inner=[
            Setting(
                name="repository", about="", schema={"type": "string", "pattern": r"^[a-z0-9][\w.:/-]*$"}, default=repository
            ),
            Setting(name="tag", about="", schema=is_a(r"\w[\w.-]{0,127}"), default=tag),
            Setting(name="digest", about="In place of the tag: sha256:...", schema=is_a("sha256:[0-9a-f]{64}"), default=""),
            Setting(
                name="pullPolicy",
                about="Empty: Kubernetes' own rule, which is Always for the tag latest.",
                schema={"enum": ["", "Always", "IfNotPresent", "Never"]},
                default="",
            ),
        ],
    )
    yield Setting(
        name="imagePullSecrets",
        about="Secrets in the release's namespace, as in a pod: [{name: my-registry}].",
        schema={
            "type": "array",
            "items": {"type": "object", "additionalProperties": False, "properties": {"name": TEXT}, "required": ["name"]},
        },
        default=[],
    )
    yield Setting(
        name="replicas",
        about="Operators: one leads, all answer webhooks.",
        schema={"type": "integer", "minimum": replicas.min, "maximum": replicas.max},
        default=ManifestOptions.replicas,
    )
    yield Setting(
        name="namespaces",
        about="Keep only these namespaces, with Roles in each in place of a ClusterRole; they must exist. Empty: all.",
        schema={"type": "array", "items": {"type": "string", "pattern": f"^{_LABEL.pattern}$"}, "uniqueItems": True},
        default=[],
    )
    yield Setting(
        name="schedulerProvider",
        about="Who places groups as gangs; the operator is told, and gets the rights for it.",
        schema={"enum": [str(one) for one in Provider]},
        default=str(ManifestOptions.scheduler_provider),
    )
    yield Setting(
        name="nodeLossGrace",
        about="Seconds that a node must be lost before Terminating pods of LeaderWorkerSets on it are forced; 0: never.",
        schema={"type": "number", "minimum": 0},
        default=_whole(run_option("node_loss_grace")),
    )
    yield Setting(
        name="workers",
        about="Groups that are looked at at the same time.",
        schema={"type": "integer", "minimum": 1},
        default=run_option("workers"),
    )
    yield Setting(
        name="logLevel", about="", schema={"enum": [str(one) for one in levels.choices]}, default=run_option("log_level")
    )
    yield Setting(
        name="webhooks",
        about="How API servers reach the operator, and why they trust it. With nothing set here the operator makes a CA and a\n"
        "certificate, keeps them in a Secret, renews them, and puts the CA into the webhook configurations.",
        inner=[
            Setting(
                name="certificateSecret",
                about="A Secret of type kubernetes.io/tls in the release's namespace to serve with, for example cert-manager's,\n"
                "for regroup-webhook.NAMESPACE.svc. Its CA is then yours to give: caBundle, or annotations for who fills it in.",
                schema=is_a("[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"),
                default="",
            ),
            Setting(
                name="caBundle",
                about="PEM that API servers shall trust: --set-file webhooks.caBundle=ca.pem",
                schema=is_a("[\\s\\S]*-----BEGIN CERTIFICATE-----[\\s\\S]*"),
                default="",
            ),
            Setting(
                name="annotations",
                about="Of the webhook configurations: {cert-manager.io/inject-ca-from: NAMESPACE/CERTIFICATE}.",
                schema=TEXTS,
                default={},
            ),
            Setting(
                name="url",
                about="Webhooks by this https URL in place of a Service, for an operator outside the cluster.",
                schema=is_a(r'https://[A-Za-z0-9\[][!-"$->@-~]*'),
                default="",
            ),
        ],
    )
    yield Setting(
        name="create",
        about="The parts to install, as `regroup manifests --only` has them. The namespace is Helm's: --create-namespace.",
        inner=[Setting(name=name, about="", schema=FLAG, default=True) for name in PARTS if name != "namespace"],
    )
    yield Setting(
        name="crds",
        about="",
        inner=[
            Setting(
                name="keep",
                about="Leave the CRDs, and so every LeaderWorkerSet and InferenceService, when the release is uninstalled.\n"
                "If false, delete those objects first, while there is an operator to take its finalizers off.",
                schema=FLAG,
                default=True,
            )
        ],
    )
    yield Setting(
        name="resources",
        about="",
        schema={
            "type": "object",
            "additionalProperties": False,
            "properties": {"requests": _QUANTITIES, "limits": _QUANTITIES, "claims": OBJECTS},
        },
        default=container["resources"],
    )
    yield Setting(name="nodeSelector", about="", schema=TEXTS, default={})
    yield Setting(name="tolerations", about="", schema={"type": "array", "items": _TOLERATION}, default=[])
    yield Setting(
        name="affinity",
        about="",
        schema={
            "type": "object",
            "additionalProperties": False,
            "properties": {key: {"type": "object"} for key in ("nodeAffinity", "podAffinity", "podAntiAffinity")},
        },
        default={},
    )
    yield Setting(name="topologySpreadConstraints", about="", schema=OBJECTS, default=[])
    yield Setting(name="priorityClassName", about="", schema=TEXT, default="")
    yield Setting(name="podAnnotations", about="", schema=TEXTS, default={})
    yield Setting(
        name="config",
        about="The ConfigMap of OMENative mode. docs/omenative.md tells each entry; null takes one out, which turns it off.",
        inner=[
            Setting(name=key, about="", schema=_entry_schema(key), default=json.loads(text))
            for key, text in config_data().items()
        ],
    )


_READ = {config.LIFECYCLE: config._Lifecycle, config.DEPLOY: config._Deploy, config.DISRUPTION: config._Budgets}


def _entry_schema(key: str) -> Schema:
    """What may stand in an entry of the ConfigMap: what is read of it, and what is shipped though nothing reads it."""
    whole = msgspec.json.schema(_READ[key])
    return _closed(whole, definitions=whole["$defs"], shipped=json.loads(config_data()[key]), name=key)


def _closed(schema: Schema, *, definitions: Mapping[str, Schema], shipped: Any, name: str) -> Schema:
    """``schema`` without references, nulls and defaults, closed to other keys, with the limits that the operator has beyond
    types."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in schema:
        kinds = [one for one in schema["anyOf"] if one != {"type": "null"}]
        if len(kinds) > 1:
            return _COUNT  # a number or a percentage
        return _closed(kinds[0], definitions=definitions, shipped=shipped, name=name)
    match schema["type"]:
        case "object" if "additionalProperties" in schema:  # one for each component
            inner = _closed(schema["additionalProperties"], definitions=definitions, shipped={}, name="")
            return {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(COMPONENTS, inner)}
        case "object":
            found = {
                key: _closed(one, definitions=definitions, shipped=(shipped or {}).get(key), name=key)
                for key, one in schema["properties"].items()
            }
            unread: Schema = {key: {} for key in shipped or {} if key not in found}
            return {"type": "object", "additionalProperties": False, "properties": {**found, **unread}}
        case "string" if name == "type":
            return {"enum": list(UPDATE_STRATEGIES)}
        case "string" if name == "defaultDeploymentMode":
            return {"enum": [shipped]}
        case "string":
            return {"type": "string", "pattern": durations.PATTERN}
        case "integer":
            return {"type": "integer", "minimum": 0 if name.endswith("Seconds") else 1}
        case other:
            return {"type": other, "minimum": 1}


def _whole(number: float) -> float | int:
    return int(number) if number == int(number) else number


def defaults(settings: Sequence[Setting] = ()) -> dict[str, Any]:
    """The chart's values as they are shipped."""
    return {one.name: defaults(one.inner) if one.inner else one.default for one in settings or SETTINGS}


def values_yaml(settings: Sequence[Setting] = (), *, depth: int = 0) -> str:
    """``values.yaml``: each value with its comment."""
    lines: list[str] = []
    for one in settings or SETTINGS:
        if one.about and depth == 0 and lines:
            lines.append("")
        lines += [f"# {line}" for line in one.about.split("\n") if line]
        if one.inner:
            lines += [f"{one.name}:", *(f"  {line}" for line in values_yaml(one.inner, depth=depth + 1).rstrip("\n").split("\n"))]
        else:
            lines += yamlish.dump({one.name: one.default}).rstrip("\n").split("\n")
    return "\n".join(lines) + "\n"


def schema() -> Schema:
    """``values.schema.json``: closed everywhere, so that a misspelt name is told."""
    whole = _object(SETTINGS)
    # What Helm itself gives a chart that is part of another one.
    parents = {"global": {"type": "object"}, "enabled": FLAG}
    whole["properties"] = {**whole["properties"], **parents}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart regroup", **whole}


def _object(settings: Sequence[Setting]) -> Schema:
    properties = {one.name: _described(one, _object(one.inner) if one.inner else dict(one.schema or {})) for one in settings}
    # An empty one may be null as well; what the templates need may not.
    required = [one.name for one in settings if one.inner or one.default not in ("", [], {})]
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _described(setting: Setting, found: Schema) -> Schema:
    return {**({"description": setting.about.replace("\n", " ")} if setting.about else {}), **found}


SETTINGS: Sequence[Setting] = tuple(_settings())
