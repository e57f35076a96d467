"""Who has booked what: holds and what becomes of them."""
