"""What is wrong with an object, each problem with path, value and rule; only ``webhook`` speaks HTTP (spec/omenative.md 1)."""
