"""sysfs: what the Linux kernel states of devices."""
