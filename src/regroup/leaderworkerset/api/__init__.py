"""``leaderworkerset.x-k8s.io/v1``: what is read of it, its defaults and its schema (spec/leaderworkerset.md 2). Pure."""
