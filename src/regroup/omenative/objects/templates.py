"""Looking into pod templates: their main container, and its ports (spec/omenative.md 1.1.1, 2.5). Pure.

Templates are plain dicts that came from outside: what has the wrong shape is passed over here, and refused when pods are made.
"""

from collections.abc import Mapping
from typing import Any

from regroup.omenative.keys import MAIN_CONTAINER

Object = dict[str, Any]

DEFAULT_PORT = 8080
"""Where a component listens that declares no port."""
_PORT_NAME_LIMIT = 15


def containers(spec: Mapping[str, Any]) -> list[Object]:
    """The regular containers of a pod spec."""
    listed = spec.get("containers")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list | tuple) else []


def main_container(spec: Mapping[str, Any]) -> Object | None:
    """The container called ``ome-container``, else the first."""
    listed = containers(spec)
    return next((one for one in listed if one.get("name") == MAIN_CONTAINER), listed[0] if listed else None)


def service_ports(template: Mapping[str, Any]) -> list[Object]:
    """The ports of a Service in front of pods of ``template``: those of its main container, else 8080."""
    main = main_container(template.get("spec") or {}) or {}
    ports: list[Object] = []
    taken: set[tuple[int, str]] = set()
    declared = main.get("ports")
    for port in declared if isinstance(declared, list | tuple) else ():
        number = port.get("containerPort") if isinstance(port, Mapping) else None
        if not isinstance(number, int) or isinstance(number, bool):
            continue
        protocol = str(port.get("protocol") or "TCP")
        if (number, protocol) in taken:
            continue
        taken.add((number, protocol))
        ports.append({"name": _port_name(port, number, protocol), "port": number, "targetPort": number, "protocol": protocol})
    if not ports:
        return [{"name": "http", "port": DEFAULT_PORT, "targetPort": DEFAULT_PORT, "protocol": "TCP"}]
    names = [port["name"] for port in ports]
    for port in ports:
        if names.count(port["name"]) > 1:
            port["name"] = f"{port['protocol'].lower()}-{port['port']}"
    return ports


def _port_name(port: Mapping[str, Any], number: int, protocol: str) -> str:
    name = str(port.get("name") or "")
    return name if 0 < len(name) <= _PORT_NAME_LIMIT else f"{protocol.lower()}-{number}"
