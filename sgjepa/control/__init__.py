"""Policies, and the closed loop in which they drive a world."""
