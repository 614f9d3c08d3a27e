"""What is made for a LeaderWorkerSet: sets, Services, gangs, revisions, names (spec/leaderworkerset.md 3, 4, 6). Pure."""
