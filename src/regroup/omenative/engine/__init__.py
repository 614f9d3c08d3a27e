"""The pass over an InferenceReplica: ``passes.run`` and its steps, one module a step (spec/omenative.md 3-5). Pure."""
