"""What a real API server refuses of built-in objects, in its words. Pure."""
