"""Episodes on disk: made in parallel, stored as Lance rows, read back by episode or by window."""
