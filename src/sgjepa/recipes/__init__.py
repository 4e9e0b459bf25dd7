"""Recipes: plain functions that return a full config. A variant is `dataclasses.replace`."""
