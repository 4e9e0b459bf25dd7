"""Latents and conditions to the next latents."""
