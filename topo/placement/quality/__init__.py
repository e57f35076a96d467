"""How good a placement is: its objective, the bounds, the proof."""
