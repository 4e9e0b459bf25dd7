"""Policies, and the closed loop in which they control an environment."""
