"""From the places of the nodes to the forest, its changes and its conflicts."""
