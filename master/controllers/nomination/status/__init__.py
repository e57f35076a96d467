"""The status of gangs: computed, kept, and written where people look."""
