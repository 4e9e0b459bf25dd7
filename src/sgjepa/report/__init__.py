"""The report: evaluations of several runs as one page, figures and tables. Reads files only; no torch, no simulator."""
