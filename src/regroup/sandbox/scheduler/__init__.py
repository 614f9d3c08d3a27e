"""The sandbox's kube-scheduler: pure filters and scores, an index of who runs where, and a thin loop that binds."""
