"""The sandbox's node lifecycle: nodes that fall silent, their taints, and what becomes of their pods."""
