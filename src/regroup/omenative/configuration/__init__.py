"""What the cluster's administrator sets, and what of it is in force for a component (spec/omenative.md 1.1.3, 6.4). Pure."""
