"""What is wrong with a LeaderWorkerSet, and what its pods are given at admission; only ``webhook`` speaks HTTP."""
