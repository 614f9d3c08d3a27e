"""The part of LeaderWorkerSet that talks to an API server: observes, lets the pure rules decide, and acts."""
