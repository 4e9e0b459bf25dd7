"""`sgjepa evaluate`: fit a probe, roll a run out on test episodes, and measure the errors."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from sgjepa.cli import arguments
from sgjepa.core.errors import InputError

ABOUT = "evaluate a finished run: fit its probe, roll it out on test episodes and measure the errors"
EXAMPLE = "sgjepa evaluate runs/square_gru-mini-seed0"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "run_folder", type=arguments.run_argument, metavar="RUN", help="folder that `sgjepa train` made, or zoo:NAME"
    )
    arguments.add_dataset(parser)
    parser.add_argument("--probe", default="mlp", metavar="KIND", help="mlp (default) or linear")
    parser.add_argument(
        "--window",
        type=int,
        metavar="N",
        help="frames that the probe reads (default: 10; at the paper's sizes 4, in approach_ball 2)",
    )
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="of the probe (default: %(default)s)")
    parser.add_argument("--context", type=int, metavar="N", help="true frames given before the rollout (default: 20)")
    parser.add_argument("--counterfactual", action="store_true", help="also give the model other laws than the true one")
    parser.add_argument("--probe-only", action="store_true", help="fit the probe and print its errors; no rollout")


def run(options: Namespace) -> None:
    """Measure the errors of every episode and horizon, and print a summary."""
    if options.probe_only and (options.counterfactual or options.context is not None):
        raise InputError("--probe-only makes no rollout; leave out --context and --counterfactual")
    arguments.prepare_for_torch()
    dataset = arguments.open_dataset_for(options)
    probe = arguments.probe_config(options, dataset)
    if options.probe_only:
        _print_probe(options, dataset, probe)
    else:
        _print_errors(options, dataset, probe)


def _print_probe(options: Namespace, dataset: Any, probe: Any) -> None:
    from sgjepa.evaluation.probes import fit_probe, probe_folder

    fitted = fit_probe(options.run_folder, dataset, probe)
    folder = probe_folder(options.run_folder, dataset, probe)
    print(f"{folder}: validation NMSE {fitted.scores['validation_nmse']:.4f}")
    for name, value in fitted.scores["validation_nmse_by_target"].items():
        print(f"  {name:12s} {value:.4f}")


def _print_errors(options: Namespace, dataset: Any, probe: Any) -> None:
    from sgjepa.evaluation.counterfactual import CounterfactualConfig, counterfactual
    from sgjepa.evaluation.evaluate import ForecastConfig, evaluate
    from sgjepa.results.evaluations import arms_of, load_evaluation
    from sgjepa.results.summary import write_summary
    from sgjepa.results.table import Results

    settings = ForecastConfig(context=20 if options.context is None else options.context, probe=probe)
    folder = evaluate(options.run_folder, dataset, settings)
    wrong = (
        counterfactual(options.run_folder, dataset, CounterfactualConfig(forecast=settings))
        if options.counterfactual
        else None
    )
    evaluation = load_evaluation(folder)
    for line in write_summary(Results.of_evaluations(arms_of([evaluation])), folder):
        print(line)
    if wrong is not None:
        print(f"counterfactual laws: {wrong}")
    arguments.print_next("report", options.run_folder, *(["--data", folder.name] if evaluation.differs else []))
