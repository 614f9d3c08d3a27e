"""From an InferenceService, its runtime and model to InferenceReplicas, and back to its status (spec/omenative.md 1). Pure."""
