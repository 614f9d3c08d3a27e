"""LeaderWorkerSet (``leaderworkerset.x-k8s.io/v1``): everything but ``controller`` and ``webhook`` is pure."""
