"""Which of two versions of an object is the later one: versions of a resource compare as numbers since Kubernetes 1.35. Pure."""

from regroup.kube.meta import HasMeta


def newer(obj: HasMeta, version: str) -> bool:
    """Whether ``obj`` is later than ``version`` (empty: any is). Versions that are not numbers only differ or not."""
    new = obj.metadata.resource_version
    return new != version and (not (new.isdigit() and version.isdigit()) or int(new) > int(version))


class OwnWrites:
    """The versions that our own writes led to, by UID: what the cache has not caught up with must not be judged again."""

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}

    def wrote(self, obj: HasMeta) -> None:
        """``obj`` is the answer to a write of ours."""
        self._versions[obj.metadata.uid] = obj.metadata.resource_version

    def stale(self, obj: HasMeta) -> bool:
        """Whether ``obj`` is older than what we wrote; its event is still on its way."""
        version = self._versions.get(obj.metadata.uid)
        if version is None or obj.metadata.resource_version == version:
            return False
        if newer(obj, version):
            del self._versions[obj.metadata.uid]
            return False
        return True

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._versions.pop(uid, None)
