"""Tests on one control plane, which ends with the last of them."""
