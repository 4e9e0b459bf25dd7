"""The viewer: simulation and model predictions in a browser, under laws that a user changes."""
