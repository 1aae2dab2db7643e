"""Service managers: systemd, launchd, and being process 1 of a container."""
