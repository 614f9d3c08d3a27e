"""``kubectl ome``: Instances of InferenceServices, for a terminal. Reads only."""
