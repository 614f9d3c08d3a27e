"""The shell of OMENative: watches, writes and wiring. Decides nothing."""
