"""Reading and comparing evaluations. Files only: no torch, no simulator."""
