"""What the Linux kernel says of devices."""
