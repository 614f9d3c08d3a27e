"""The objects that are made for a component and its Instances (spec/omenative.md 2). Pure."""
