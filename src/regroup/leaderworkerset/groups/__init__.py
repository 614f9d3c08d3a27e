"""What is to be done for one group: ``decide.decide`` and the rules that it asks (spec/leaderworkerset.md 4, 5). Pure."""
