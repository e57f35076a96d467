"""What is free where: hosts, their bookings, and the slots of every class of request."""
