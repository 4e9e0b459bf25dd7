"""Frames to latents."""
