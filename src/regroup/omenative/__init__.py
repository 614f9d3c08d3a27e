"""InferenceService in OMENative mode (``ome.io/v1beta1``): everything but ``controller`` and ``webhook`` is pure."""
