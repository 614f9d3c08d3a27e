"""Measures the budgets: ``python -m benchmarks``."""
