"""Resources that only a cluster's own controllers deal with."""

from regroup.wire.resource import Resource

PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
