"""Semigroup-JEPA: world models that stay right when predictions are fed back and the law of physics changes."""

__version__ = "0.1.0"
