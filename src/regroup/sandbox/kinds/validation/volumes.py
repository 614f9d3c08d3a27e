"""Volumes of pods. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.sandbox.kinds.validation import names
from regroup.sandbox.kinds.validation.report import Report
from regroup.wire.codec import parse_quantity

Obj = dict[str, Any]

_NAMED: Mapping[str, str] = {
    "secret": "secretName",
    "configMap": "name",
    "persistentVolumeClaim": "claimName",
    "hostPath": "path",
}
"""What a source cannot be without."""


def check(report: Report, volumes: Sequence[Obj], path: str) -> dict[str, Obj]:
    """Volumes of a pod; the result is those that mounts may name: the sound ones."""
    found: dict[str, Obj] = {}
    for number, volume in enumerate(volumes):
        place = f"{path}[{number}]"
        name = volume.get("name") or ""
        before = len(report.errors)
        _sources(report, volume, place)
        if not name:
            report.required(f"{place}.name")
        else:
            report.all_invalid(f"{place}.name", name, names.dns_label(name))
        if name in found:
            report.duplicate(f"{place}.name", name)
        if len(report.errors) == before:
            found[name] = volume
    return found


def _sources(report: Report, volume: Obj, path: str) -> None:
    kinds = sorted((kind for kind in volume if kind != "name"), key=_rank)
    for number, kind in enumerate(kinds):
        place = f"{path}.{kind}"
        if number:
            report.forbidden(place, "may not specify more than 1 volume type")
            continue
        source = volume[kind] or {}
        field = _NAMED.get(kind)
        if field and not source.get(field):
            report.required(f"{place}.{field}")
        match kind:
            case "emptyDir":
                if source.get("sizeLimit") is not None and parse_quantity(source["sizeLimit"]) < 0:
                    report.forbidden(f"{place}.sizeLimit", "SizeLimit field must be a valid resource quantity")
            case "configMap" | "secret":
                _items(report, source, place)
            case "projected":
                _projected(report, source, place)


def _rank(kind: str) -> tuple[int, str]:
    order = ("emptyDir", "hostPath", "secret", "nfs", "persistentVolumeClaim", "configMap", "downwardAPI", "projected")
    return (order.index(kind) if kind in order else len(order), kind)


def _items(report: Report, source: Obj, path: str) -> None:
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        report.invalid(f"{path}.defaultMode", mode, "must be a number between 0 and 0777 (octal), both inclusive")
    for number, item in enumerate(source.get("items") or []):
        place = f"{path}.items[{number}]"
        if not item.get("key"):
            report.required(f"{place}.key")
        target = item.get("path") or ""
        if not target:
            report.required(f"{place}.path")
        elif target.startswith("/"):
            report.invalid(f"{place}.path", target, "must be a relative path")
        elif ".." in target.split("/"):
            report.invalid(f"{place}.path", target, "must not contain '..'")


def _projected(report: Report, source: Obj, path: str) -> None:
    for number, entry in enumerate(source.get("sources") or []):
        place = f"{path}.sources[{number}]"
        for kind, value in entry.items():
            if kind in {"secret", "configMap"}:
                if not (value or {}).get("name"):
                    report.required(f"{place}.{kind}.name")
                _items(report, value or {}, f"{place}.{kind}")
            elif kind == "serviceAccountToken":
                if not (value or {}).get("path"):
                    report.required(f"{place}.{kind}.path")
                seconds = (value or {}).get("expirationSeconds")
                if seconds is not None and seconds < 600:
                    report.invalid(
                        f"{place}.{kind}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
                    )
