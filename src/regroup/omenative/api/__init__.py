"""``ome.io/v1beta1``: what is read of its kinds, their schemas and their plain values (spec/omenative.md 1). Pure."""
