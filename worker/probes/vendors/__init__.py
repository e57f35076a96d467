"""One file per vendor: `probes(settings)` gives the probes of its library, tools and services."""
