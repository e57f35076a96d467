"""How broken up the free capacity is."""
