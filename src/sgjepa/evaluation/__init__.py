"""What a frozen model knows: probes, long-horizon forecasts beside their references, counterfactual laws, coverage."""
