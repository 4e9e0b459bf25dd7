"""World models: an encoder, a predictor and the four methods `encode`, `condition`, `predict`, `features`."""
