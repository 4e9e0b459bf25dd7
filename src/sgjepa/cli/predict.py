"""`sgjepa predict`: roll a run out on test episodes and measure."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sgjepa.cli import shared

ABOUT = "evaluate a finished run: roll it out on test episodes and measure the errors; fits its probe if need be"
EXAMPLE = "sgjepa predict runs/square_gru-mini-seed0"


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    shared.evaluation_flags(parser)
    parser.add_argument("--context", type=int, default=20, metavar="N", help="true frames given (default: %(default)s)")
    parser.add_argument("--counterfactual", action="store_true", help="also tell the model other laws than the true one")


def run(options: Namespace) -> None:
    """Rows for every episode and horizon, and their summary on the terminal."""
    shared.prepare_for_torch()
    from sgjepa.evaluation.counterfactual import CounterfactualConfig, counterfactual
    from sgjepa.evaluation.evaluate import ForecastConfig, evaluate
    from sgjepa.results.compare import methods
    from sgjepa.results.load import load_evaluation
    from sgjepa.results.summary import write_summary

    dataset = shared.dataset_of(options)
    settings = ForecastConfig(context=options.context, probe=shared.probe_config(options, dataset))
    place = evaluate(options.run_folder, dataset, settings)
    if options.counterfactual:
        told = counterfactual(options.run_folder, dataset, CounterfactualConfig(forecast=settings))
    found = load_evaluation(place)
    for line in write_summary(methods([found])[0], place):
        print(line)
    if options.counterfactual:
        print(f"counterfactual laws: {told}")
    shared.say_next("report", options.run_folder, *(["--data", place.name] if found.differs else []))
