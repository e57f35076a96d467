"""The status of gangs: computed, stored, and written to Events and pod conditions."""
