"""Groups of a switched fabric: dumps of it, its switches in tiers, its adapters joined to nodes."""
