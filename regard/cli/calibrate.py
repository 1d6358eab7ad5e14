"""regard calibrate: fit the probability that a translation is good to pairs that training has not
seen.
"""

from __future__ import annotations

import warnings

import typer

from regard.cli.app import app, say
from regard.cli.options import select_device
from regard.common.counting import counted
from regard.common.errors import LineWarning, UsageError
from regard.requests.calibrate_request import CalibrateCommand


@app.command(request=CalibrateCommand, sets=("threads", "seed"))
def calibrate(command: CalibrateCommand) -> None:
    """Translate held-out pairs, and write to the model folder how its scores become `quality`: the
    probability that a translation has a chrF of 50 or more.

    Training does so at its end with the validation pairs; this is for other texts, and for models
    that were imported. A runtime file takes it along when it is exported anew.
    """
    from regard.data.corpus import read_corpus
    from regard.data.file_formats import PairFiles
    from regard.data.provenance import trained_on
    from regard.evaluation.quality_fit import LEAST
    from regard.evaluation.quality_fit import calibrate as fit
    from regard.model_folder import load_settings, write_settings
    from regard.pipeline import load_translator

    settings = load_settings(command.run)
    files = PairFiles(
        source=command.source,
        target=command.target,
        pairs=command.pairs,
        columns=command.columns,
        languages=settings.languages,
    )
    seen = trained_on(command.run, map(str, files.paths.values()))
    UsageError.raise_all(
        f"{name}: the model was trained on it, and knows its sentences; give pairs that training "
        "has not seen"
        for name in seen
    )
    corpus = read_corpus(files, name="calibration")
    say(*corpus.report.lines())
    translator = load_translator(command.run, select_device(command.device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)
        translations = translator.translate(corpus.sources)
    quality = fit(translations, corpus.targets)
    if quality is None:
        raise UsageError(
            f"{counted(len(corpus), 'pair')}: {LEAST} or more of one sentence are needed, of which "
            "some are translated well and some are not; nothing is changed"
        )
    write_settings(command.run, settings.with_values(quality=quality))
    typer.echo(f"{quality.share:.0%} of {quality.pairs:,} translations are good")
    typer.echo("quality  good")
    for predicted, share in quality.curve:
        typer.echo(f"{predicted:7.2f}  {share:.2f}")
