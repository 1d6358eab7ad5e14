"""The request of `regard.compare` and of `regard compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from pydantic.dataclasses import dataclass

from regard.common.arguments import (
    PATH,
    FlagField,
    Kind,
    NumberField,
    PathField,
    Report,
    TableField,
    TextField,
    WholeField,
    describe,
)
from regard.common.requests import COMMAND, REQUEST, Option
from regard.common.settings import MAX_COMPARED, parse_assignments
from regard.requests.shared_fields import Device, Seed, ThreadCount


class _Paths(Kind):
    """The kind of lists of paths, in which pairs of a name and a path may stand, and of tables of
    paths.
    """

    def problem(self, value: Any) -> str:
        """Return the problem with the list, or with its first item that is no path."""
        if isinstance(value, (str, bytes)) or not self.holds(value):
            return f"wanted {self.words}, got {describe(value)}"
        paths = [path for _, path in named_paths(value)]
        problems = [PATH.problem(path) for path in paths]
        return next(filter(None, problems), "")


PATHS = _Paths("a list of paths", lambda value: isinstance(value, (Sequence, Mapping)))
NAMED_PATHS = _Paths(
    "paths by name", lambda value: isinstance(value, (list, tuple, Mapping))
)
PATH_OR_PATHS = Kind(
    "a path",
    lambda value: (
        all(map(PATH.holds, value))
        if isinstance(value, (list, tuple))
        else PATH.holds(value)
    ),
)


def named_path(text: str) -> tuple[str, Path]:
    """Split NAME=PATH; the name is empty if there is none. The text is a path if such a file
    exists, even if it contains "=".
    """
    name, equals, path = text.partition("=")
    if equals and name and path and not Path(text).exists():
        return name, Path(path)
    return "", Path(text)


def named_paths(paths: Any) -> list[tuple[str, Any]]:
    """Return paths with their names; those of a list without names have empty ones."""
    if isinstance(paths, Mapping):
        return list(paths.items())
    return [path if isinstance(path, tuple) else ("", path) for path in paths]


def _parse_named_paths(texts: Sequence[str]) -> list[tuple[str, Path]]:
    return [named_path(text) for text in texts]


def _parse_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


Target = Annotated[PathField | None, Option("Their translations, line by line.")]
Pairs = Annotated[PathField | None, Option("Instead of both: TSV, CSV or JSONL.")]


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class ComparisonFiles:
    """Data files of a comparison: those to train on, as in `regard.train`, and those to test on.

    `test_target` is one or more files of references, line by line. `images` is the folder of
    captioned images.
    """

    source: Annotated[
        PathField | None,
        Option("Training sentences: to train on, and to count words in."),
    ] = None
    target: Target = None
    pairs: Pairs = None
    valid_source: Annotated[PathField | None, Option("Validation sentences.")] = None
    valid_target: Target = None
    valid_pairs: Pairs = None
    test_source: Annotated[PathField | None, Option("Test sentences.")] = None
    test_target: Annotated[
        Annotated[str | Path | Sequence[str | Path], PATH_OR_PATHS],
        Option("Reference translations; once per set.", is_repeated=True),
    ] = ()
    test_pairs: Pairs = None
    columns: Annotated[
        TextField | None,
        Option(
            "Columns of files of pairs, as English,hsb or 2,3; by names and content if left out."
        ),
    ] = None
    test_alignments: Annotated[
        PathField | None,
        Option("Gold word links of the test pairs: adds the alignment error rate."),
    ] = None
    images: Annotated[
        PathField | None, Option("Instead of sentences: a folder of images.")
    ] = None
    captions: Annotated[PathField | None, Option("Captions to train on.")] = None
    valid_captions: Annotated[PathField | None, Option("Captions for validation.")] = (
        None
    )
    test_captions: Annotated[PathField | None, Option("Captions to test on.")] = None

    @property
    def references(self) -> list[str]:
        """The files of reference translations."""
        paths = self.test_target
        if isinstance(paths, (str, Path)):
            paths = [paths]
        return [str(path) for path in paths]

    @property
    def training(self) -> dict[str, str]:
        """Training and validation files, by the names of the arguments of `regard.train`."""
        texts = (
            "source",
            "target",
            "pairs",
            "valid_source",
            "valid_target",
            "valid_pairs",
        )
        names = (*texts, "images", "captions", "valid_captions")
        paths = {name: getattr(self, name) for name in names}
        if self.pairs or self.valid_pairs:
            paths["columns"] = self.columns
        return {name: str(path) for name, path in paths.items() if path is not None}

    @property
    def has_training(self) -> bool:
        """True if there are files to train on."""
        return bool(
            (self.source and self.target)
            or self.pairs
            or (self.images and self.captions)
        )

    @property
    def has_test(self) -> bool:
        """True if there are files to test on."""
        return bool(
            (self.test_source and self.references)
            or self.test_pairs
            or (self.images and self.test_captions)
        )

    def problems(self) -> list[str]:
        """Return a sentence for each file that excludes another one or lacks its counterpart."""
        texts = [
            self.source,
            self.target,
            self.pairs,
            self.valid_source,
            self.valid_target,
            self.valid_pairs,
        ]
        texts += [
            self.test_source,
            self.test_pairs,
            self.test_alignments,
            *self.references,
        ]
        captions = [self.captions, self.valid_captions, self.test_captions]
        causes = []
        if (self.images or any(captions)) and any(texts):
            causes.append(
                "`images=` and files of sentences: compare translators or captioners; leave one of "
                "them out"
            )
        for prefix in ("", "valid_", "test_"):
            causes += self._side_problems(prefix)
        if self.columns and not (self.pairs or self.valid_pairs or self.test_pairs):
            causes.append("`columns=`: only with files of pairs; leave it out")
        if self.test_alignments and not self.test_source:
            causes.append(
                "`test_alignments=`: links the words of `test_source=` and `test_target=`; give "
                "them too"
            )
        if any(captions) and not self.images:
            causes.append("`images=` is missing: the folder of the captioned images")
        if self.images and not any(captions):
            causes.append(
                "`images=` is given without captions; give `test_captions=`, or `captions=` to "
                "train on"
            )
        return causes

    def _side_problems(self, prefix: str) -> list[str]:
        """Return a sentence if one of two sides is missing, or if pairs are given too."""
        causes = []
        has_source = bool(getattr(self, f"{prefix}source"))
        has_target = bool(getattr(self, f"{prefix}target"))
        if has_source and not has_target:
            causes.append(
                f"`{prefix}source=` is given without `{prefix}target=`; give both"
            )
        elif has_target and not has_source:
            causes.append(
                f"`{prefix}target=` is given without `{prefix}source=`; give both"
            )
        if has_source and getattr(self, f"{prefix}pairs"):
            causes.append(
                f"`{prefix}source=` and `{prefix}pairs=` exclude each other; give one"
            )
        return causes


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class CompareArguments(ComparisonFiles):
    """A comparison: its systems, data and budget; the folder of the report may be left open."""

    runs: Annotated[
        Annotated[
            Sequence[str | Path | tuple[str, str | Path]] | Mapping[str, str | Path],
            PATHS,
        ],
        Option(
            "Run or model folders, or NAME=FOLDER.",
            is_argument=True,
            is_repeated=True,
            parse=_parse_named_paths,
        ),
    ] = field(default=(), kw_only=False)
    out: Annotated[
        PathField | None,
        Option(
            "Folder for report, JSON and CSV; after a stop it is continued there.",
            is_local=True,
        ),
    ] = None
    hypotheses: Annotated[
        Annotated[
            Sequence[tuple[str, str | Path]] | Mapping[str, str | Path], NAMED_PATHS
        ]
        | None,
        Option(
            "NAME=FILE: outputs of any other system, line by line; may be repeated.",
            is_repeated=True,
            parse=_parse_named_paths,
        ),
    ] = None
    presets: Annotated[
        Annotated[Sequence[str | Path], PATHS],
        Option(
            "Presets or recipe files (.toml) to train, separated by commas.",
            parse=_parse_names,
        ),
    ] = ()
    minutes: Annotated[
        NumberField | None, Option("Budget of each run: minutes of training.")
    ] = None
    updates: Annotated[WholeField | None, Option("Or updates.")] = None
    tokens: Annotated[WholeField | None, Option("Or target tokens.")] = None
    seeds: Annotated[
        WholeField,
        Option(
            "Runs of each preset, with the seeds 1, 2, … (or --seed and those after it)"
        ),
    ] = 1
    seed: Seed = None
    settings: Annotated[
        TableField | None,
        Option(
            "key=value for all presets, as often as needed.",
            "--set",
            is_repeated=True,
            parse=parse_assignments,
        ),
    ] = None
    baseline: Annotated[
        TextField, Option("The system to compare with; the first one if left out.")
    ] = ""
    beam: Annotated[
        WholeField | None,
        Option("Beam for all; else that of each model.", least=1, most=MAX_COMPARED),
    ] = None
    speed: Annotated[FlagField, Option("Measure speed and memory of each system.")] = (
        True
    )
    ter: Annotated[
        FlagField,
        Option("Score TER too, which may take minutes if outputs are long."),
    ] = True
    device: Device = "auto"
    threads: ThreadCount = None


@dataclass(frozen=True, config=REQUEST, kw_only=True)
class CompareRequest(CompareArguments):
    """A comparison: its arguments, its folder, and the function that is told of events."""

    out: PathField = field()  # not optional, as it is in the base class
    report: Report | None = None
