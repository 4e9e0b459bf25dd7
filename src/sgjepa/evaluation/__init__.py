"""Evaluation of a frozen model: probes, long-horizon forecasts and their baselines, counterfactual laws, coverage."""
