"""What every room stands on: errors, configs, files, progress, statistics, tables, the run folder. No torch."""
