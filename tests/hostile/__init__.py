"""Attacks on the command line: malformed files, odd options, and disks that fail in the middle of a write."""
