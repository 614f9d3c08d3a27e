"""Bytes and HTTP: transport, authentication, codec, patches, API errors. Knows no kind and no controller."""
