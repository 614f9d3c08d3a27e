"""Puts the pieces together: configuration, start-up, CRDs, manifests."""
