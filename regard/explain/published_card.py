"""Card of published models: `README.md`, with metadata that Hugging Face reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from regard.common.counting import counted
from regard.common.markdown import code_span, escape_text, quote_argument
from regard.common.version import __version__
from regard.data.language_codes import base_language
from regard.evaluation.training_report import USABLE
from regard.explain.licences import licence_address, licence_on_hugging_face
from regard.explain.published_model import LICENCE, PublishedModel, PublishedModels
from regard.training.journal import scores_of
from regard.training.model_card import describe_experiment, how_lines, summary
from regard.training.run_record import RunRecord

FEW = 300
"""Number of test lines below which an interval is wide."""
DOUBTFUL = 3
"""Percent of the validation lines that a trained model calls doubtful."""


def card_body(published: PublishedModels, command: str, is_inside: bool) -> str:
    """Return the card without its metadata; `command` writes the folder again.

    A card that `is_inside` page and runtime file does not lead to the page.
    """
    parts = [f"# {escape_text(published.title)}"]
    if published.about:
        parts.append(published.about.strip())
    parts += [_summary(model) for model in published.models]
    if published.has_page and not is_inside:
        parts.append(
            "**Try it: open [index.html](index.html)** in a browser, on a computer or a phone. It "
            "translates on your device; what you type is sent nowhere."
        )
    elif not published.has_page:
        parts.append(_why_not_in_browser(published))
    parts += ["## What to watch out for", _list(warnings_of(published))]
    parts += ["## Use it", *_usage(published)]
    parts += ["## Licence and origin", _list(_rights(published))]
    for model in published.models:
        parts += [f"## How it was made{_of(model, published)}", *_making(model)]
    parts += ["## Make it again", *_remaking(published, command)]
    return "\n\n".join(parts) + "\n"


def card_metadata(published: PublishedModels) -> str:
    """Return the metadata at the head of a card, as YAML between two lines of dashes."""
    captions = published.models[0].is_captioner
    task = "image-to-text" if captions else "translation"
    codes = (base_language(code) for code in published.models[0].languages.codes)
    values: dict[str, Any] = {
        "title": published.title,
        "language": [code for code in codes if re.fullmatch("[a-z]{2,3}", code)],
    }
    if published.licence:
        name = licence_on_hugging_face(published.licence)
        values["license"] = name
        if name == "other":
            values["license_name"] = published.licence.lower().replace(" ", "-")
            if published.licence_text:
                values["license_link"] = LICENCE
    values |= {
        "library_name": "regard",
        "pipeline_tag": task,
        "tags": [task, "regard"],
    }
    scored = {
        model.title: scores
        for model in published.models
        if (scores := _scores(model.record))
    }
    if scored:
        metrics = {score["type"] for scores in scored.values() for score in scores[1]}
        values["metrics"] = sorted(metrics)
        values["model-index"] = [
            {
                "name": name,
                "results": [
                    {
                        "task": {"type": task},
                        "dataset": {"type": "regard", "name": data},
                        "metrics": scores,
                    }
                ],
            }
            for name, (data, scores) in scored.items()
        ]
    # A static Space of Hugging Face shows the page.
    values |= {"sdk": "static", "app_file": "index.html"}
    lines = _yaml({name: value for name, value in values.items() if value})
    return "\n".join(["---", *lines, "---", ""])


def warnings_of(published: PublishedModels) -> list[str]:
    """Return what those who use the models should know, in Markdown."""
    warnings = []
    for model in published.models:
        prefix = f"{model.title}: " if len(published.models) > 1 else ""
        warnings += [f"{prefix}{warning}" for warning in _warnings(model)]
    kind = "texts"
    check = (
        "A machine translates here. Its mistakes may read well: let somebody who speaks both "
        "languages look at all that matters."
    )
    if published.models[0].is_captioner:
        kind = "images"
        check = "A machine describes here, and may name what is not there: compare with the image."
    if any(model.record.best for model in published.models):
        warnings.append(
            "chrF tells how many runs of letters its texts share with those of people: none at 0, "
            "all at 100. Good texts in other words score less."
        )
    return [
        *warnings,
        f"It knows {kind} of the kind that it has learnt from{_from(published)}; of others it "
        "makes less.",
        check,
    ]


def _why_not_in_browser(published: PublishedModels) -> str:
    """Return a sentence for those who look for a page to try the models on."""
    model = published.models[0]
    if model.is_captioner:
        why = ", as it reads images, for which it needs PyTorch"
    elif model.obstacles:
        why = f" ({escape_text('; '.join(model.obstacles))})"
    else:
        why = ""
    return (
        f"It does not run in the browser{why}: install Regard to use it, as told below."
    )


def _from(published: PublishedModels) -> str:
    return f" ({escape_text(published.origin)})" if published.origin else ""


def _warnings(model: PublishedModel) -> Iterator[str]:
    """Yield what is to be known of one model: its purpose, its scores, its limits."""
    record = model.record
    ablations = model.settings.model.ablations()
    if ablations:
        yield describe_experiment(ablations)
    yield from _score_warnings(record, model.is_captioner)
    for line in record.report:
        if line.startswith(("valid:", "test:")) and "also in train" in line:
            yield f"Its scores flatter: {escape_text(line)}."
    search = model.settings.search
    if not model.is_captioner and search.longest_source:
        yield (
            f"It has learnt from sentences of at most {search.longest_source:,} parts of words; "
            "of longer ones it may lose parts. Texts are divided into sentences before."
        )
    learnt_doubt = search.score_threshold is not None and bool(record.best)
    if not model.is_captioner and learnt_doubt:
        yield (
            "It marks sentences as doubtful if it is less sure of them than of "
            f"{100 - DOUBTFUL} % of its validation sentences. It can be sure and wrong."
        )


def _score_warnings(record: RunRecord, is_captioner: bool) -> Iterator[str]:
    """Yield what the scores mean, and how far they are to be trusted."""
    test = record.last("test")
    best = record.best
    scores = {score["name"].lower(): score["value"] for score in test.get("scores", ())}
    chrf = scores.get("chrf", best.get("chrf"))
    if chrf is None:
        yield "It was never scored here: nobody knows how good it is."
        return
    if not is_captioner and chrf < USABLE:
        yield (
            f"It is of no use for drafts yet: chrF is {chrf:.0f}, and below {USABLE:.0f} nearly "
            "every sentence has to be written anew."
        )
    bleu = scores.get("bleu", best.get("bleu"))
    if bleu is not None and bleu < 1 and chrf >= USABLE:
        yield "BLEU says nothing here, as it counts four words in a row; read chrF."
    if not test:
        yield (
            "It was not tested. The scores are of the validation pairs by which its weights were "
            "chosen, and flatter it."
        )
    elif test["pairs"] < FEW:
        yield (
            f"It was tested on {counted(test['pairs'], 'pair')} only: see how wide the intervals "
            "are."
        )
    if record.test_is_outdated:
        yield "It was trained on after its test: the test scores are of older weights."


def _summary(model: PublishedModel) -> str:
    recipe = model.record.recipe
    if recipe is not None:
        return summary(model.record, recipe)
    return f"{escape_text(model.title)}. How it was trained is not recorded."


def _usage(published: PublishedModels) -> Iterator[str]:
    """Yield paragraphs on the use of the files."""
    model = published.models[0]
    name = model.file
    if model.is_captioner:
        call = f"regard caption {name} IMAGE"
        python = f'import regard\n\nprint(regard.load("{name}").caption("IMAGE").text)'
    else:
        call = f"regard translate {name}"
        python = (
            f'import regard\n\ntranslator = regard.load("{name}")\n'
            'print(translator.translate("…")[0].text)'
        )
    needs = "" if model.obstacles else ", without PyTorch"
    yield (f"With Regard {__version__} installed: {code_span(call)}{needs}. In Python:")
    yield f"```python\n{python}\n```"
    if model.obstacles:
        return
    yield "In JavaScript, in browsers and node, with the module `regard-runtime`:"
    yield (
        '```js\nimport { load } from "regard-runtime";\n\n'
        f'const translator = await load(await (await fetch("{name}")).arrayBuffer());\n'
        'console.log(translator.translate("…")[0].text);\n```'
    )
    others = [other.file for other in published.models[1:]]
    alike = f" `{others[0]}` is used alike." if others else ""
    yield (
        f"`regard serve {name}` serves it to programs that know LibreTranslate or DeepL.{alike}"
    )


def _rights(published: PublishedModels) -> Iterator[str]:
    licence = published.licence
    if licence:
        address = licence_address(licence)
        shown = f"[{licence}]({address})" if address else escape_text(licence)
        text = f"; its text is in [{LICENCE}]({LICENCE})"
        yield f"Licence of the model: {shown}{text if published.licence_text else ''}."
    else:
        yield "Licence: none is stated. Ask the author before you use it."
    yield f"Author: {escape_text(published.author) or 'not stated'}."
    yield f"Data from: {escape_text(published.origin) or 'not stated'}."
    if published.has_page:
        yield (
            "The program inside `index.html` is Regard's, under Apache-2.0; its letters are of "
            "Pretendard, under the SIL Open Font License 1.1."
        )


def _making(model: PublishedModel) -> Iterator[str]:
    """Yield paragraphs on the training of a model and on its data."""
    record = model.record
    if record.recipe is None:
        yield _making_elsewhere(model.folder / "README.md")
        return
    machine = dict(record.last("machine"))
    made_with = ", ".join(
        f"{label} {machine[name]}"
        for name, label in (
            ("regard", "Regard"),
            ("torch", "PyTorch"),
            ("python", "Python"),
            ("processor", "processor"),
            ("device", "device"),
        )
        if name in machine
    )
    lines = how_lines(record)
    signatures = [
        f"{score['name']} {code_span(score['signature'])}"
        for score in record.last("test").get("scores", ())
    ]
    if signatures:
        lines.append(f"- Signatures: {', '.join(signatures)}.")
    lines.append(f"- Size: {counted(model.parameters, 'parameter')}.")
    if made_with:
        lines.append(f"- Made with: {escape_text(made_with)}.")
    yield "\n".join(lines).replace("`train.toml`", f"`{model.recipe_file}`")
    if record.files:
        yield "Its data, file by file:"
        yield _list(
            f"{role}: {code_span(PurePath(file['path']).name)}, {file['bytes']:,} bytes, SHA-256 "
            f"`{file['sha256']}`"
            for role, file in record.files.items()
            if {"path", "bytes", "sha256"} <= file.keys()
        )
    # Lines that are indented twice show sentences of the data.
    report = [line for line in record.report if not line.startswith("    ")]
    if report:
        yield "How they were read:"
        yield _list(escape_text(line) for line in report)


def _making_elsewhere(readme: Path) -> str:
    """Return what the card of a model that was not trained here tells of it."""
    if not readme.is_file():
        return "That is not recorded."
    title, _, rest = readme.read_text("utf-8", "replace").partition("\n")
    return rest.strip().replace("\n## ", "\n### ") or escape_text(title.strip("# "))


def _remaking(published: PublishedModels, command: str) -> Iterator[str]:
    trains = [
        f"    regard train {model.recipe_file} --out RUN{number or ''}"
        for number, model in enumerate(published.models)
        if model.record.recipe is not None
    ]
    yield "\n".join([*trains, f"    {command}"])
    if trains:
        yield (
            "Training needs the data files where the recipe names them. The same data, recipe, "
            "versions and processor give the same weights to the bit."
        )
    yield (
        "`sha256sum -c SHA256SUMS` tells whether the files of this folder are those that were "
        "published."
    )


def _of(model: PublishedModel, published: PublishedModels) -> str:
    return f": {model.title}" if len(published.models) > 1 else ""


def _list(items: Iterator[str] | Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _scores(record: RunRecord) -> tuple[str, list[dict[str, Any]]] | None:
    """Return the data that a model was scored on, and the scores for the metadata; None if there
    are none.
    """
    test = record.last("test")
    if test:
        scores = [
            {
                "type": score["name"].lower(),
                "value": round(score["value"], 2),
                "name": f"{score['name']} (95 %: {score['low']:.1f} to {score['high']:.1f})",
            }
            for score in test["scores"]
        ]
        return f"{test['pairs']} test pairs", scores
    best = record.best
    names = {"chrf": "chrF", "bleu": "BLEU", "cider": "CIDEr-D"}
    scores = [
        {"type": name, "value": round(value, 2), "name": names[name]}
        for name, value in scores_of(best).items()
        if name in names
    ]
    pairs = record.pairs("valid")
    return (f"{pairs or 'the'} validation pairs", scores) if scores else None


def _yaml(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield lines of YAML; a text is written as in JSON, which YAML reads."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _yaml(value, f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{name}:"
            for item in value:
                lines = [_scalar(item)]
                if isinstance(item, Mapping):
                    lines = [*_yaml(item)]
                yield f"{indent}- {lines[0]}"
                yield from (f"{indent}  {line}" for line in lines[1:])
        else:
            yield f"{indent}{name}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    is_plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w.-]*", value)
    # YAML takes "no", the code of Norwegian, for false.
    is_truth = str(value).lower() in (
        "no",
        "yes",
        "on",
        "off",
        "y",
        "n",
        "true",
        "false",
        "null",
    )
    if is_plain and not is_truth:
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def quoted_command(*words: str) -> str:
    """Return a command line, quoted for a shell."""
    return " ".join(["regard", *map(quote_argument, words)])
