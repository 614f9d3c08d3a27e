"""LeaderWorkerSet (``leaderworkerset.x-k8s.io/v1``). From the bottom up, and each imports only what is below it:

``api`` what is read; ``objects`` what is made; ``groups`` what is to be done for one group; ``status`` what the set says of
itself; ``telling`` what a person is told beyond it; ``admission`` and ``controller`` speak to the cluster. Everything but
``controller`` and ``admission.webhook`` is pure.
"""
