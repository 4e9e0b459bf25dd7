"""From a recipe to a finished run: data, losses, optimisers, the loop, checkpoints."""
