"""Facts about the pods of an Instance: members, serving gate, counts, failures (spec/omenative.md 2, 3.5, 4.2). Pure."""
