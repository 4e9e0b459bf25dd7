"""The worlds in which an arm meets a ball."""
