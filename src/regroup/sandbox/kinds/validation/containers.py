"""Containers of pods: ports, environment, mounts, resources, probes, hooks. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regroup.sandbox.kinds.validation import names
from regroup.sandbox.kinds.validation.report import Report
from regroup.wire.codec import parse_quantity

Obj = dict[str, Any]

_PULL = ("Always", "IfNotPresent", "Never")
_MESSAGE = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_FIELD_PATHS = {
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
}
_RESOURCE_PATHS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_STANDARD = {"cpu", "memory", "ephemeral-storage"}


def check(report: Report, spec: Obj, path: str, *, volumes: Mapping[str, Obj]) -> None:
    """All containers of a pod."""
    containers = spec.get("containers") or []
    if not containers:
        report.required(f"{path}.containers")
    seen: set[str] = set()
    for number, container in enumerate(containers):
        place = f"{path}.containers[{number}]"
        _container(report, container, place, volumes=volumes)
        _name_is_new(report, container, place, seen)
        _probes(report, container, place)
    _ports_of_host(report, spec, path)
    for number, container in enumerate(spec.get("initContainers") or []):
        place = f"{path}.initContainers[{number}]"
        _container(report, container, place, volumes=volumes)
        _name_is_new(report, container, place, seen)
        if container.get("restartPolicy") == "Always":
            _probes(report, container, place)
        else:
            for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(name) is not None:
                    report.forbidden(f"{place}.{name}", "may not be set for init containers without restartPolicy=Always")


def _name_is_new(report: Report, container: Obj, path: str, seen: set[str]) -> None:
    name = container.get("name") or ""
    if name in seen:
        report.duplicate(f"{path}.name", name)
    elif name:
        seen.add(name)


def _container(report: Report, container: Obj, path: str, *, volumes: Mapping[str, Obj]) -> None:
    name, image = container.get("name") or "", container.get("image") or ""
    if not name:
        report.required(f"{path}.name")
    else:
        report.all_invalid(f"{path}.name", name, names.dns_label(name))
    if not image:
        report.required(f"{path}.image")
    elif image != image.strip():
        report.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    report.one_of(f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy"), _MESSAGE, needed=True)
    _ports(report, container.get("ports") or [], f"{path}.ports")
    _environment(report, container.get("env") or [], f"{path}.env")
    _environment_from(report, container.get("envFrom") or [], f"{path}.envFrom")
    _mounts(report, container.get("volumeMounts") or [], f"{path}.volumeMounts", volumes)
    report.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL, needed=True)
    resources(report, container.get("resources") or {}, f"{path}.resources")
    if container.get("restartPolicy") is not None:
        report.one_of(f"{path}.restartPolicy", container["restartPolicy"], ("Always", "Never", "OnFailure"))
    _security(report, container.get("securityContext") or {}, f"{path}.securityContext")


def _ports(report: Report, ports: Sequence[Obj], path: str) -> None:
    seen: set[str] = set()
    for number, port in enumerate(ports):
        place = f"{path}[{number}]"
        name = port.get("name")
        if name:
            wrong = names.port_name(name)
            report.all_invalid(f"{place}.name", name, wrong)
            if name in seen:
                report.duplicate(f"{place}.name", name)
            elif not wrong:
                seen.add(name)
        if not port.get("containerPort"):
            report.required(f"{place}.containerPort")
        else:
            report.between(f"{place}.containerPort", port["containerPort"], 1, 65535)
        if port.get("hostPort"):
            report.between(f"{place}.hostPort", port["hostPort"], 1, 65535)
        report.one_of(f"{place}.protocol", port.get("protocol"), _PROTOCOLS, needed=True)


def _ports_of_host(report: Report, spec: Obj, path: str) -> None:
    """No two containers want the same port of the node; in the node's own network a port is the same on both sides."""
    taken: set[tuple[Any, ...]] = set()
    for number, container in enumerate(spec.get("containers") or []):
        for position, port in enumerate(container.get("ports") or []):
            if port.get("hostPort"):
                key = (port.get("protocol"), port.get("hostIP", ""), port["hostPort"])
                if key in taken:
                    shown = f"{port['hostPort']}/{port.get('hostIP') or ''}/{port.get('protocol')}"
                    report.duplicate(f"{path}.containers[{number}].ports[{position}].hostPort", shown)
                taken.add(key)
                if spec.get("hostNetwork") and port["hostPort"] != port.get("containerPort"):
                    field = f"{path}.containers[{number}].ports[{position}].hostPort"
                    report.invalid(field, port["hostPort"], "must match `containerPort` when `hostNetwork` is true")


def _environment(report: Report, variables: Sequence[Obj], path: str) -> None:
    for number, variable in enumerate(variables):
        place = f"{path}[{number}]"
        name = variable.get("name") or ""
        if not name:
            report.required(f"{place}.name")
        else:
            report.all_invalid(f"{place}.name", name, names.variable_name(name))
        if variable.get("valueFrom") is not None:
            _source(report, variable, f"{place}.valueFrom")


def _source(report: Report, variable: Obj, path: str) -> None:
    source = variable["valueFrom"]
    given = [name for name in _SOURCES if source.get(name) is not None]
    for name in given:
        place = f"{path}.{name}"
        match name:
            case "fieldRef":
                _field_path(report, source[name].get("fieldPath") or "", place)
            case "resourceFieldRef":
                _resource_path(report, source[name].get("resource") or "", place)
            case "configMapKeyRef" | "secretKeyRef":
                _key(report, source[name], place)
    if not given:
        kinds = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        report.invalid(path, "", f"must specify one of: {kinds}")
    elif variable.get("value"):
        report.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        report.invalid(path, "", "may not have more than one field specified at a time")


def _field_path(report: Report, value: str, path: str) -> None:
    if not value:
        report.required(f"{path}.fieldPath")
        return
    base, bracket, key = value.partition("['")
    if bracket and key.endswith("']") and base in {"metadata.labels", "metadata.annotations"}:
        key = key[:-2]
        report.all_invalid(path, key, names.qualified_name(key.lower() if base == "metadata.annotations" else key))
    elif value not in _FIELD_PATHS:
        report.invalid(f"{path}.fieldPath", value, f"error converting fieldPath: field label not supported: {value}")


def _resource_path(report: Report, value: str, path: str) -> None:
    if not value:
        report.required(f"{path}.resource")
    elif not value.startswith(("limits.hugepages-", "requests.hugepages-")):
        report.one_of(f"{path}.resource", value, _RESOURCE_PATHS)


def _key(report: Report, reference: Obj, path: str) -> None:
    name, key = reference.get("name") or "", reference.get("key") or ""
    report.all_invalid(f"{path}.name", name, names.dns_subdomain(name))
    if not key:
        report.required(f"{path}.key")
    else:
        report.all_invalid(f"{path}.key", key, names.config_key(key))


def _environment_from(report: Report, sources: Sequence[Obj], path: str) -> None:
    for number, source in enumerate(sources):
        place = f"{path}[{number}]"
        if source.get("prefix"):
            report.all_invalid(f"{place}.prefix", source["prefix"], names.variable_name(source["prefix"]))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            text = source[name].get("name") or ""
            if text:
                report.all_invalid(f"{place}.{name}.name", text, names.dns_subdomain(text))
            else:
                report.required(f"{place}.{name}.name")
        if not given:
            report.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            report.invalid(path, "", "may not have more than one field specified at a time")


def _mounts(report: Report, mounts: Sequence[Obj], path: str, volumes: Mapping[str, Obj]) -> None:
    seen: set[str] = set()
    for number, mount in enumerate(mounts):
        place = f"{path}[{number}]"
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            report.required(f"{place}.name")
        if name not in volumes:
            report.not_found(f"{place}.name", name)
        if not target:
            report.required(f"{place}.mountPath")
        elif target in seen:
            report.invalid(f"{place}.mountPath", target, "must be unique")
        seen.add(target)
        for field in ("subPath", "subPathExpr"):
            # The path of these two has no index: a real server words it so.
            part = mount.get(field) or ""
            if part.startswith("/"):
                report.invalid(f"{path}.{field}", part, "must be a relative path")
            elif ".." in part.split("/"):
                report.invalid(f"{path}.{field}", part, "must not contain '..'")


def resources(report: Report, value: Obj, path: str) -> None:
    """Requests and limits of a container."""
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for name, amount in sorted(limits.items()):
        _amount(report, name, amount, f"{path}.limits[{name}]")
    for name, amount in sorted(requests.items()):
        place = f"{path}.requests"
        limit = limits.get(name)
        if limit is not None:
            if parse_quantity(amount) > parse_quantity(limit) and _overcommits(name):
                report.invalid(place, amount, f"must be less than or equal to {name} limit of {limit}")
            elif parse_quantity(amount) != parse_quantity(limit) and not _overcommits(name):
                report.invalid(place, amount, f"must be equal to {name} limit of {limit}")
        _amount(report, name, amount, f"{place}[{name}]")
        if limit is None and not _overcommits(name):
            report.required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _overcommits(name: str) -> bool:
    return name in _STANDARD or ("/" not in name and not name.startswith("hugepages-"))


def _amount(report: Report, name: str, amount: str, path: str) -> None:
    wrong = names.qualified_name(name)
    report.all_invalid(path, name, wrong)
    known = name in _STANDARD or name.startswith("hugepages-")
    if "/" not in name:
        if not known and not wrong:
            report.invalid(path, name, "must be a standard resource type or fully qualified")
        if not known:
            report.invalid(path, name, "must be a standard resource for containers")
    elif wrong or name.partition("/")[0].endswith("kubernetes.io") or name.startswith("requests."):
        report.invalid(path, name, "doesn't follow extended resource name standard")
    number = parse_quantity(amount)
    if number < 0:
        report.invalid(path, amount, "must be greater than or equal to 0")
    elif "/" in name and not wrong and number != number.to_integral_value():
        report.invalid(path, amount, "must be an integer")


def _probes(report: Report, container: Obj, path: str) -> None:
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            _handler(report, lifecycle[name], f"{path}.lifecycle.{name}", kinds=("exec", "httpGet", "tcpSocket", "sleep"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        place = f"{path}.{name}"
        _handler(report, probe, place, kinds=_HANDLERS)
        for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
            report.not_negative(f"{place}.{field}", probe.get(field))
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and name == "readinessProbe":
            report.invalid(f"{place}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
        elif grace is not None and grace <= 0:
            report.invalid(f"{place}.terminationGracePeriodSeconds", grace, "must be greater than 0")
        if name != "readinessProbe" and probe.get("successThreshold") != 1:
            report.invalid(f"{place}.successThreshold", probe.get("successThreshold"), "must be 1")


def _handler(report: Report, handler: Obj, path: str, *, kinds: Iterable[str]) -> None:
    given = [name for name in kinds if handler.get(name) is not None]
    if not given:
        report.required(path, "must specify a handler type")
    for number, name in enumerate(given):
        place = f"{path}.{name}"
        if number:
            report.forbidden(place, "may not specify more than 1 handler type")
            continue
        action = handler[name]
        match name:
            case "exec" if not action.get("command"):
                report.required(f"{place}.command")
            case "httpGet":
                if not action.get("path"):
                    report.required(f"{place}.path")
                port(report, action.get("port", 0), f"{place}.port")
                report.one_of(f"{place}.scheme", action.get("scheme"), ("HTTP", "HTTPS"))
            case "tcpSocket":
                port(report, action.get("port", 0), f"{place}.port")
            case "grpc":
                report.between(f"{place}.port", action.get("port") or 0, 1, 65535)


def port(report: Report, value: int | str, path: str) -> None:
    """A port by number or by name."""
    if isinstance(value, int):
        report.between(path, value, 1, 65535)
    else:
        report.all_invalid(path, value, names.port_name(value))


def _security(report: Report, context: Obj, path: str) -> None:
    for name in ("runAsUser", "runAsGroup"):
        if context.get(name) is not None:
            report.between(f"{path}.{name}", context[name], 0, 2**31 - 1)
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        report.invalid(path, _shown(context), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")


def _shown(context: Obj) -> Obj:
    """A security context as the server prints it in errors: every field, under its Go name."""
    order = "Capabilities Privileged SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot ReadOnlyRootFilesystem"
    rest = "AllowPrivilegeEscalation ProcMount SeccompProfile AppArmorProfile"
    json_names = {"SELinuxOptions": "seLinuxOptions"}
    return {name: context.get(json_names.get(name, name[0].lower() + name[1:])) for name in f"{order} {rest}".split()}
