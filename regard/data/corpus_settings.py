"""Settings of the corpora of a run: their files, languages, weights and filters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic import AfterValidator, Field

from regard.common.settings import COUNT, FACTOR, Settings
from regard.data.file_formats import PairFiles, languages_of_pairs, table_path
from regard.data.images import ImageSettings
from regard.data.languages import (
    AUTO,
    Languages,
    LanguageSetting,
    language_of_name,
    only,
)
from regard.data.pair_filters import Filters
from regard.data.text import MAX_LINE, data_path

EVALUATION = ("valid", "test")
"""Names of the evaluation corpora; all other corpora are for training."""
EVALUATION_WORDS = 400
"""Longest sentence to validate or test on, in words, unless `data.max_length` is more."""


def canonical_licence(text: str) -> str:
    """Return an SPDX licence expression in its canonical form. Raises ValueError for other text."""
    from packaging.licenses import (
        InvalidLicenseExpression,
        canonicalize_license_expression,
    )

    try:
        return canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        raise ValueError(
            "wanted an SPDX licence such as CC-BY-4.0, MPL-2.0 or LicenseRef-my-own "
            f"(https://spdx.org/licenses), got {text[:80]!r}"
        ) from None


Licence = Annotated[str, AfterValidator(canonical_licence)]


class MixSettings(Settings):
    """An additional training corpus."""

    source: str | None = Field(
        None,
        description="In a table [[data.mix]]: file of source sentences of an additional corpus.",
    )
    target: str | None = Field(
        None, description="In [[data.mix]]: file of their translations."
    )
    pairs: str | None = Field(
        None, description="In [[data.mix]], instead of both: one file of pairs."
    )
    columns: str = Field(
        "", description="In [[data.mix]]: the columns of its pairs, as in data.columns."
    )
    alignments: str | None = Field(
        None, description="In [[data.mix]]: file of word links of its pairs."
    )
    weight: float = Field(
        1.0,
        allow_inf_nan=True,  # `_mix_problems` reports them with the other problems
        description="In [[data.mix]]: how often batches come from it, relative to other weights; "
        "data.source has 1.",
    )
    name: str | None = Field(
        None,
        description="In [[data.mix]]: its name in reports and RUN/shards; mix1, mix2 … if not "
        "given.",
    )


class CorpusSettings(Settings):
    """Corpora of sentence pairs, or of images and captions, and the filters for training."""

    source: str | None = Field(
        None, description="File of training sentences, one per line; .gz is read too."
    )
    target: str | None = Field(
        None, description="File of their translations, line by line."
    )
    pairs: str | None = Field(
        None,
        description="Instead of both: one file of pairs, such as CSV, XLSX, TMX or JSONL.",
    )
    columns: str = Field(
        "",
        description="Names, languages or numbers of the columns that hold the pairs, such as "
        "English,hsb or 2,3, or the images and their captions; empty: by their names and by what "
        "is in them.",
    )
    alignments: str | None = Field(
        None,
        description="File of word links of the training pairs, line by line: 0-0 1-2; see "
        "training.guided.",
    )
    valid_source: str | None = Field(
        None, description="Source sentences to validate on."
    )
    valid_target: str | None = Field(None, description="Their translations.")
    valid_pairs: str | None = Field(
        None, description="Instead of both: one file of pairs."
    )
    source_language: LanguageSetting = Field(
        AUTO,
        description="Language of the source, such as ko (BCP 47; --languages ko,en); auto: the "
        "one that the columns or the names of the training files tell (train.ko, news.ko-en.tsv), "
        "then written into train.toml; empty: unknown.",
    )
    target_language: LanguageSetting = Field(
        AUTO, description="The same of the translations, or of the captions."
    )
    test_source: str | None = Field(
        None,
        description="Test sentences, which are translated once, when training has ended (--test).",
    )
    test_target: str | None = Field(None, description="Their translations.")
    test_pairs: str | None = Field(
        None, description="Instead of both: one file of pairs."
    )
    test_count: int | None = Field(
        None,
        ge=1,
        le=COUNT,
        description="Or so many pairs, or images, held out of the training data, into "
        "RUN/test.tsv.",
    )
    max_length: int = Field(
        200,
        ge=1,
        le=COUNT,
        description="Longest training sentence in words (ten characters also make one).",
    )
    max_line: int = Field(
        MAX_LINE,
        ge=1,
        le=COUNT,
        description="Most characters of a line, in a file of pairs of both sides; longer ones are "
        "skipped unread.",
    )
    max_ratio: float = Field(
        9.0,
        ge=1,
        le=COUNT,
        description="How many times longer than the other a side of more than 30 characters may "
        "be.",
    )
    check: bool = Field(
        True,
        description="Leave out suspect training pairs, or repair them: garbled, swapped, shifted, "
        "in another language … (`regard check` shows them).",
    )
    corrections: str | None = Field(
        None,
        description="RUN/suspects.tsv, or the table of `regard check`, in which somebody has "
        "corrected pairs of data.pairs, or of data.source and data.target.",
    )
    drop_duplicates: bool = Field(
        False, description="Keep only the first of equal training pairs."
    )
    mix: Annotated[tuple[MixSettings, ...], Field(strict=False)] = Field(
        (),
        description="More training corpora, one table [[data.mix]] each; batches come from each "
        "by its weight.",
    )
    shards: bool | Literal["auto"] = Field(
        "auto",
        description="Keep training pairs as token ids in files under RUN/shards rather than in "
        "memory; auto: if their text is over a gigabyte, or over a 36th of the memory.",
    )
    licence: Licence | None = Field(
        None,
        description="Licence of the model, as an SPDX expression such as CC-BY-4.0, for the model "
        "card (--licence).",
    )
    author: str | None = Field(
        None, description="Who trained the model, for the model card (--author)."
    )
    origin: str | None = Field(
        None,
        description="Where the data are from, for the model card (--source-of-data).",
    )
    images: ImageSettings | None = Field(
        None, description="Instead of sentences: images and their captions."
    )

    @pydantic.model_validator(mode="after")
    def _check_consistent(self) -> CorpusSettings:
        if self.images is None:
            self._check_sentences()
        else:
            self._check_images(self.images)
        return self

    def _check_images(self, images: ImageSettings) -> None:
        """Raise ValueError for a setting that images exclude."""
        if any(self.files("test_")):
            raise ValueError(
                "test files are of sentence pairs; hold out images (`test=20`), or score a file "
                "of captions when training has ended (`regard evaluate RUN --images FOLDER "
                "--captions FILE`)"
            )
        has_pairs = {*self.paths} != {*images.paths}
        others = has_pairs, self.mix, self.alignments, self.corrections
        if any(others):
            raise ValueError(
                "images exclude source, target, pairs, alignments, corrections and mix; "
                "give images or sentences"
            )
        if self.source_language not in (AUTO, ""):
            raise ValueError(
                f"images have no source_language ({self.source_language}); set only "
                "target_language"
            )

    def _check_sentences(self) -> None:
        """Raise ValueError with all problems of the settings of sentence pairs."""
        only_mix = bool(self.mix) and self.files("") == (None, None, None)
        prefixes = ("valid_", "test_") if only_mix else ("", "valid_", "test_")
        problems = [_files_problem(prefix, *self.files(prefix)) for prefix in prefixes]
        if only_mix and self.alignments is not None:
            problems.append(
                "alignments link the words of source and target, and there is only mix; give "
                "it there"
            )
        if self.corrections is not None and (only_mix or self.alignments is not None):
            problems.append(
                "corrections are of source and target, or pairs, and exclude alignments, whose "
                "links they would break; leave one out"
            )
        for number, part in enumerate(self.mix, 1):
            problems += _mix_problems(number, part)
        if self.columns and not any(files[2] for files in map(self.files, prefixes)):
            problems.append(f"columns ({self.columns}): only with pairs; leave it out")
        problems += _name_problems([name for name, _ in _parts(self)])
        if self.test_count is not None and any(self.files("test_")):
            problems.append(
                f"test_count ({self.test_count}) and test files exclude each other; give one"
            )
        causes = [problem for problem in problems if problem]
        if causes:
            raise ValueError("; ".join(causes))

    def files(self, prefix: str) -> tuple[str | None, str | None, str | None]:
        """Return the source, target and pairs file for a prefix: "" (training), "valid_" or
        "test_".
        """
        source, target, pairs = (
            getattr(self, prefix + name) for name in ("source", "target", "pairs")
        )
        return source, target, pairs

    @property
    def paths(self) -> dict[str, Path]:
        """All files by corpus and role, such as "train.source"."""
        paths = {
            f"{name}.{role}": path
            for name, files in self.pair_files.items()
            for role, path in files.paths.items()
        }
        for name, path in self.alignment_files.items():
            paths[f"{name}.alignments"] = data_path(path)
        if self.corrections is not None:
            paths["train.corrections"] = data_path(table_path(self.corrections))
        if self.images is not None:
            for role, captions in self.images.paths.items():
                paths[role] = Path(table_path(str(captions)))
        return paths

    @property
    def pair_files(self) -> dict[str, PairFiles]:
        """The files of all corpora of sentence pairs by name."""
        return {**self.training_files, **self.evaluation_files}

    @property
    def training_files(self) -> dict[str, PairFiles]:
        """The files of the training corpora by name: "train", then those of `mix`; empty for
        images.
        """
        if self.images is not None and self.files("") == (None, None, None):
            return {}
        files = {
            name: self._pair_files(part.source, part.target, part.pairs, part.columns)
            for name, part in _parts(self)
        }
        if self.corrections is not None:
            files["train"] = replace(files["train"], corrections=self.corrections)
        return files

    def _pair_files(
        self, source: str | None, target: str | None, pairs: str | None, columns: str
    ) -> PairFiles:
        codes = self.source_language, self.target_language
        known = ("" if code == AUTO else code for code in codes)
        languages = Languages(**dict(zip(("source", "target"), known, strict=True)))
        return PairFiles(source, target, pairs, self.max_line, columns, languages)

    @property
    def alignment_files(self) -> dict[str, str]:
        """The word alignment file of each training corpus that has one."""
        return {
            name: part.alignments
            for name, part in _parts(self)
            if part.alignments is not None
        }

    def without_alignments(self) -> CorpusSettings:
        """Return the settings without word alignments."""
        mix = tuple(part.with_values(alignments=None) for part in self.mix)
        return self.model_copy(update={"alignments": None, "mix": mix})

    @property
    def languages(self) -> Languages:
        """The languages of both sides; the columns and names of the training files decide if a
        setting is `auto`.
        """
        source, target = self.source_language, self.target_language
        if AUTO in (source, target):
            inferred = self._languages_of_files()
            source = inferred.source if source == AUTO else source
            target = inferred.target if target == AUTO else target
        return Languages(source=source, target=target)

    def _languages_of_files(self) -> Languages:
        """Infer the languages from the training files: their columns and names."""
        if self.images is not None:
            return Languages(target=language_of_name(self.images.captions or ""))
        files = list(self.training_files.values())
        of_pairs = [languages_of_pairs(part) for part in files if part.pairs]
        sources = [language_of_name(part.source or "") for part in files]
        sources += [languages.source for languages in of_pairs]
        targets = [language_of_name(part.target or "") for part in files]
        targets += [languages.target for languages in of_pairs]
        return Languages(source=only(sources), target=only(targets))

    def with_languages(self, inherited: Languages) -> CorpusSettings:
        """Return the settings with each `auto` language replaced: by the language that the file
        names tell, or else by the `inherited` one.
        """
        source, target = self.languages.pair
        if self.source_language == AUTO:
            source = source or inherited.source
        if self.target_language == AUTO:
            target = target or inherited.target
        return self.model_copy(
            update={"source_language": source, "target_language": target}
        )

    @property
    def evaluation_files(self) -> dict[str, PairFiles]:
        """The files of "valid" and "test", if they are given."""
        corpora = {name: self.files(f"{name}_") for name in EVALUATION}
        return {
            name: self._pair_files(*files, self.columns)
            for name, files in corpora.items()
            if any(files)
        }

    @property
    def holds_out(self) -> list[str]:
        """Names of the evaluation corpora that are held out of the training data."""
        names = []
        if "valid" not in self.evaluation_files:
            names.append("valid")
        if self.test_count is not None:
            names.append("test")
        return names

    @property
    def weights(self) -> dict[str, float]:
        """Relative weights of the training corpora in the mixture."""
        return {name: part.weight for name, part in _parts(self)}

    @property
    def filters(self) -> Filters:
        """The filters for training pairs."""
        return Filters(self.max_length, self.max_ratio, self.drop_duplicates)

    def filters_of(self, name: str) -> Filters:
        """Return the filters for a corpus. Those for evaluation only bound the length of a
        sentence, because memory grows with its square.
        """
        if name in EVALUATION:
            return Filters(max(self.max_length, EVALUATION_WORDS))
        return self.filters


def _files_problem(
    prefix: str, source: str | None, target: str | None, pairs: str | None
) -> str | None:
    """Describe the problem with the file settings of a corpus; None if there is none."""
    both = f"{prefix}source and {prefix}target"
    if pairs is not None and (source is not None or target is not None):
        return f"{both} exclude {prefix}pairs; give one or the other"
    if source is not None and target is None:
        return f"{prefix}source is given without {prefix}target; give {both}"
    if target is not None and source is None:
        return f"{prefix}target is given without {prefix}source; give {both}"
    if not prefix and source is None and pairs is None:
        return f"no training pairs; give {both}, or {prefix}pairs"
    return None


def _parts(settings: CorpusSettings) -> list[tuple[str, MixSettings]]:
    """Return every training corpus with its name."""
    parts = [
        (part.name or f"mix{number}", part)
        for number, part in enumerate(settings.mix, 1)
    ]
    source, target, pairs = settings.files("")
    if source is None and target is None and pairs is None:
        return parts
    main = MixSettings(
        source=source,
        target=target,
        pairs=pairs,
        alignments=settings.alignments,
        columns=settings.columns,
    )
    return [("train", main), *parts]


def _name_problems(names: list[str]) -> list[str]:
    """Describe the problems with the names of the training corpora."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    problems = [
        f"mix: two corpora are called {name}; give each a name of its own"
        for name in repeated
    ]
    problems += [
        f"mix: no training corpus can be called {name}; choose another"
        for name in EVALUATION
        if name in names
    ]
    return problems


def _mix_problems(number: int, part: MixSettings) -> Iterator[str]:
    """Describe the problems with a corpus of the mix."""
    where = f"mix {number}" + (f" ({part.name})" if part.name else "")
    problem = _files_problem("", part.source, part.target, part.pairs)
    if problem:
        yield f"{where}: {problem}"
    if not 0 < part.weight <= FACTOR:
        yield (
            f"{where}: weight {part.weight:g} is not a positive number up to {FACTOR:,}; give one, "
            "or drop it"
        )
    if part.name is not None and not re.fullmatch(r"\w[\w.-]*", part.name):
        yield (
            f"{where}: name {part.name!r} cannot name a folder; use letters, digits, points and "
            "hyphens"
        )
