"""The controller runtime: watches, caches, queues, election, events, admission, metrics. Knows no CRD of ours."""
