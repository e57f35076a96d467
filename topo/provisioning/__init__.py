"""Capacity that is asked for by a ProvisioningRequest: its course, as a pure state machine."""
