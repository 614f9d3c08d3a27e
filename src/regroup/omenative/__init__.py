"""InferenceService in OMENative mode (``ome.io/v1beta1``). From the bottom up, and each imports only what is below it:

``api`` what is read and checked; ``configuration`` what the administrator sets; ``objects`` what is made; ``pods`` what pods
show; ``service`` from a service to its replicas; ``engine`` the pass over a replica; ``admission`` and ``controller`` speak to
the cluster. Everything but ``controller`` and ``admission.webhook`` is pure.
"""
