"""The nouns of the house: frozen values without behaviour of their own."""
