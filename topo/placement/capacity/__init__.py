"""Free capacity: hosts, their bookings, and the slots of every class of requests."""
