"""The base of all other packages: errors, configs, files, progress, statistics, tables, the run folder. No torch."""
