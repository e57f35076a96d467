"""What the machine keeps of all gangs: when each is due, where each is, and those not planned."""
