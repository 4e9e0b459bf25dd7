"""Predictors of the next latents from latents and conditions."""
