"""ProvisioningRequests of the class `whole-group.<domain>`: whole groups, booked for a time."""
