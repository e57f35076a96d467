"""Which of several masters leads: the rules, and the Lease that they are applied to."""
