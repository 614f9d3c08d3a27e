"""What an update in place may change: images of regular containers, and nothing else (spec/omenative.md 5.2). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.kube.canonical import canonical
from regroup.omenative.objects import revision as revisions
from regroup.omenative.view import InstancePod, Revision

_CONTAINERS = "containers"


def only_images_differ(old: Revision, new: Revision) -> bool:
    """Whether ``new`` is ``old`` with other images: same runners, sizes and containers."""
    return old.name == new.name or canonical(_without_images(old.data)) == canonical(_without_images(new.data))


def wanted(pod: InstancePod, target: Revision) -> Sequence[tuple[str, str]]:
    """(container, image) of each container of ``pod`` that has not the image of ``target``."""
    images = _images(target, pod.runner)
    return [(one.name, images[one.name]) for one in pod.spec.containers if images.get(one.name, one.image) != one.image]


def changed(old: Revision | None, new: Revision, runner: str) -> frozenset[str]:
    """Containers of ``runner`` whose image ``new`` changes: their kubelets restart them. All of them where ``old`` is not
    known."""
    after = _images(new, runner)
    before = _images(old, runner) if old is not None else {}
    return frozenset(name for name, image in after.items() if before.get(name) != image)


def _images(revision: Revision, runner: str) -> dict[str, str]:
    found = revisions.runner(revision, runner)
    containers = (found.template.get("spec") or {}).get(_CONTAINERS) or () if found is not None else ()
    return {str(one.get("name", "")): str(one.get("image", "")) for one in containers}


def _without_images(data: Mapping[str, Any]) -> dict[str, Any]:
    return {**data, "runners": [_blank(runner) for runner in data.get("runners") or ()]}


def _blank(runner: Mapping[str, Any]) -> dict[str, Any]:
    template = dict(runner.get("template") or {})
    spec = dict(template.get("spec") or {})
    spec[_CONTAINERS] = [{**one, "image": ""} for one in spec.get(_CONTAINERS) or ()]
    return {**runner, "template": {**template, "spec": spec}}
