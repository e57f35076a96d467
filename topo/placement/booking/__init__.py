"""Bookings: which pods and holds take which GPUs."""
