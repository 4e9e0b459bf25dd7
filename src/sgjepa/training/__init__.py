"""Training of models: data, losses, optimisers, the loop, checkpoints."""
