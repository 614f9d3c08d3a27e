"""Measures the budgets: ``python -m benchmarks [name...]``, JSON on standard output.

One module a question, each with ``measure() -> Answer``; each runs in a process of its own, so that one does not pay for the
memory of another. Figures of speed are ratios against a baseline in the same run, or CPU time: a machine's speed must not decide.
"""
