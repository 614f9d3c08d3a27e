"""What a LeaderWorkerSet says of itself: counts and conditions in both identity modes (spec/leaderworkerset.md 7). Pure."""
