"""`sgjepa probe`: what can be read from a run's latents."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sgjepa.cli import shared

ABOUT = "fit a probe that reads the physical state from a finished run's latents"
EXAMPLE = "sgjepa probe runs/square_gru-mini-seed0"


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    shared.evaluation_flags(parser)


def run(options: Namespace) -> None:
    """Fits it, or finds the one that was fitted; prints its errors."""
    shared.prepare_for_torch()
    from sgjepa.evaluation.probes import fit_probe, probe_folder

    dataset = shared.dataset_of(options)
    settings = shared.probe_config(options, dataset)
    fitted = fit_probe(options.run_folder, dataset, settings)
    print(f"{probe_folder(options.run_folder, dataset, settings)}: validation NMSE {fitted.scores['validation_nmse']:.4f}")
    for name, value in fitted.scores["validation_nmse_by_target"].items():
        print(f"  {name:12s} {value:.4f}")
