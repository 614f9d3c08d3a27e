"""Measures what the operator costs on Kubernetes' own control plane: ``python -m benchmarks.anchor [name...]``.

One module a question, each with ``async measure() -> Answer``; a docstring says what the Go controller was measured to need, a
budget what ours is to reach. The operator is a process of its own (``regroup run``), so that CPU and memory are its own; it has
the rights that we ship. What it writes is counted in the API server's audit log, by its own user, leases left out and events
apart. Nodes are simulated: a pod is Ready 50 ms after it is bound and gone 50 ms after its deletion begins.
"""
