"""Questions of the machine of gangs, answered on a capacity: a place, a check, an eviction."""
