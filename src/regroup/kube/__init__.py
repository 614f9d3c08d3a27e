"""Frozen, partial views of the built-in kinds, builders for what we write, and facts about pods. Pure."""
