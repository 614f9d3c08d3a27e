"""Rolling a changed pod template out over the Instances of a component (spec/omenative.md 5). Pure."""
