"""Pages of results, built from blocks: forecasts, closed loop, experiments, claims. They need no torch and no simulator."""
