"""regard export and regard import: convert models to runtime files and to the formats of other
toolkits, and from Marian.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from regard.cli.app import app, say, warn
from regard.common.errors import UsageError
from regard.common.requests import Option
from regard.requests.shared_fields import Run

if TYPE_CHECKING:
    from regard.data.languages import Languages

Precision = Literal[
    "float32",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
]
Toolkit = Literal["runtime", "page", "ctranslate2", "huggingface"]
LanguageCodes = Annotated[
    str | None,
    Option(
        "For a runtime file or a page: of source and target, such as ko,en, instead of the "
        "model's."
    ),
]
RUNTIME_PRECISIONS = ("int8", "float32", "bfloat16")


@app.command(sets=("threads",))
def export(
    run: Run,
    paths: Annotated[
        list[Path] | None,
        Option(
            "File or folder to write, in RUN/exports if left out; for a page, the other "
            "direction before it.",
            name="[RUN2] [OUT]",
            is_argument=True,
            is_local=True,
            is_repeated=True,
        ),
    ] = None,
    to: Annotated[
        Toolkit,
        Option(
            "runtime: one file that translates without PyTorch; page: one HTML file that "
            "translates in a browser; or another toolkit's folder."
        ),
    ] = "runtime",
    precision: Annotated[
        Precision | None,
        Option(
            "Precision of the weights; int8 for a runtime file, else float32, if left out."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        Option(
            "Sentences to compare both models on; the sample's if left out.",
            is_local=True,
        ),
    ] = None,
    languages: LanguageCodes = None,
) -> None:
    """Convert a model to a runtime file, a page or another toolkit's, checked on real sentences:
    both translate alike.

    regard export runs/first --to runtime translator.regard
    """
    from regard.common.reading import check_links
    from regard.interchange import ctranslate2_export, huggingface, runtime

    precision = precision or ("int8" if to in ("runtime", "page") else "float32")
    _check_precision(to, precision)
    codes = _languages(languages, to)
    second, out = _second_and_out(paths or [], to)
    if out is None:
        check_links(run, "exports", written=True)
    default_names = {
        "runtime": f"{precision}.regard",
        "page": "translator.html",
        "huggingface": to,
    }
    out = out or run / "exports" / default_names.get(to, f"{to}-{precision}")
    out = out if out.name else out.absolute()  # the path "." has no name

    if to == "runtime":
        changes = runtime.CardChanges(codes)
        parity = str(
            runtime.export(run, out, cast(Any, precision), source, changes=changes)
        )
    elif to == "page":
        from regard.explain.live_page_export import export_page

        parity = "; ".join(map(str, export_page([run, *second], out, source, codes)))
    elif to == "ctranslate2":
        parity = str(ctranslate2_export.export(run, out, precision, source))
    else:
        parity = str(huggingface.export(run, out, source))

    size = f", {out.stat().st_size / 1e6:.1f} MB" if out.is_file() else ""
    say(
        f"compared on {parity}; within the limits for {precision}", f"wrote {out}{size}"
    )


def _check_precision(to: Toolkit, precision: str) -> None:
    """Raise UsageError if the format of the export does not support a precision."""
    if to == "page" and precision != "int8":
        raise UsageError(
            f"--precision {precision}: a page has int8 weights; leave it out"
        )
    if to == "huggingface" and precision != "float32":
        raise UsageError(
            f"--precision {precision}: a folder for Hugging Face has float32 weights; leave it out"
        )
    if to == "runtime" and precision not in RUNTIME_PRECISIONS:
        raise UsageError(
            f"--precision {precision}: wanted one of {', '.join(RUNTIME_PRECISIONS)} for a runtime "
            "file, got another"
        )


def _languages(text: str | None, to: Toolkit) -> Languages | None:
    """Parse language codes.

    Raises UsageError unless there are two, and if the format of the export does not store them.
    """
    from regard.data.languages import describe_codes, parse_languages

    if text is not None and to not in ("runtime", "page"):
        raise UsageError(
            f"--languages {text}: only a runtime file and a page hold languages; leave it out"
        )
    if text is None:
        return None
    languages = parse_languages(text, "--languages")
    say(*describe_codes(text, languages))
    return languages


def _second_and_out(paths: list[Path], to: Toolkit) -> tuple[list[Path], Path | None]:
    """Divide the arguments after the first model into a second model, which only a page may have,
    and the output.
    """
    second = list[Path]()
    if to == "page" and paths:
        is_model = (paths[0] / "config.json").is_file()
        if len(paths) > 1 or is_model:
            second = paths[:1]
    if len(paths) - len(second) > 1:
        wanted = "RUN [RUN2] [OUT]" if to == "page" else "RUN [OUT]"
        raise UsageError(
            f"wanted {wanted}, got {len(paths)} paths after RUN: {', '.join(map(str, paths))}"
        )
    return second, next(iter(paths[len(second) :]), None)


@app.command("import", sets=("threads",))
def import_(
    kind: Annotated[
        Literal["huggingface"], Option("Toolkit to convert from.", is_argument=True)
    ],
    folder: Annotated[
        Path,
        Option(
            "Folder of a Marian model and its tokenizer.",
            is_argument=True,
            is_local=True,
        ),
    ],
    run: Annotated[
        Path, Option("Model folder to write.", is_argument=True, is_local=True)
    ],
) -> None:
    """Convert a model of another toolkit to a model folder, to translate, inspect or fine-tune.

    regard import huggingface opus-mt-ko-en runs/opus
    """
    assert kind == "huggingface", "import supports no other toolkit"
    from regard.interchange import huggingface
    from regard.models import count_parameters

    imported, unchecked = huggingface.import_model(
        folder, run if run.name else run.absolute()
    )
    if unchecked:
        sums = "".join(f"\n  {digest}  {name}" for name, digest in unchecked.items())
        why = "no checksums came with these files, so damage in them cannot be seen"
        warn(f"{folder}: {why}; compare with the publisher's SHA-256:{sums}")
    tokens = f"{len(imported.tokenizer.source):,} tokens"
    say(
        f"a Marian model with {count_parameters(imported.model):,} parameters and {tokens}",
        f"wrote {run}",
    )
