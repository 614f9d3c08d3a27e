"""What a person is told beyond the status: ``regroup explain`` and ``regroup history``. Pure."""
