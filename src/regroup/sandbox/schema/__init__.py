"""Structural schemas, field errors, printer columns and OpenAPI documents. Pure."""
