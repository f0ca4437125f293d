"""Every version of an event: how a new version is written, and how versions are read."""
