"""Encoders of frames to latents."""
