"""Card and checklist say what the record of a run lacks, and no licence is invented."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.data.corpus_facts import CorpusFacts
from regard.data.corpus_settings import canonical_licence
from regard.data.images import ImageSizeSettings
from regard.data.languages import Languages
from regard.explain import licences, published_card
from regard.explain.published_card import card_body, card_metadata
from regard.explain.published_checklist import make_checklist, render_checklist
from regard.explain.published_model import PublishedModel, PublishedModels
from regard.model_folder import FolderSettings
from regard.models import ModelSettings
from regard.training.recipe import Recipe, preset
from regard.training.run_record import RunRecord

COMMON = Path("/usr/share/common-licenses")
SHIPPED = {path.stem: path for path in Path(licences.__file__).parent.rglob("*.txt")}
SCORES = [
    {
        "name": name,
        "value": value,
        "low": value - 2,
        "high": value + 2,
        "signature": "s",
    }
    for name, value in (("BLEU", 20.0), ("chrF", 45.0))
]
VALID = {"event": "valid", "update": 90, "best": True, "chrf": 44.0, "bleu": 19.0}
VALID |= {"loss": 1.0}
EVENTS: list[dict[str, Any]] = [
    {"event": "machine", "regard": "0.1.0", "command": "regard train --out run"},
    VALID,
    {"event": "end", "update": 90, "tokens": 5, "seconds": 3.0, "reason": "done"},
    {"event": "test", "update": 90, "pairs": 500, "beam": 5, "scores": SCORES},
]
FACTS = CorpusFacts(1000, "0" * 64, "1" * 64)
REPORT = ("test: none of its 500 pairs shares a side with train",)


def published(**changes: Any) -> PublishedModels:
    """Return a model of which nothing is missing, but for the changes of its record."""
    values = preset("transformer-tiny")
    data = {"source": "a.ko", "target": "a.en", "source_language": "ko"}
    recipe = Recipe.parse({**values, "data": data | {"target_language": "en"}}, "test")
    corpora = {"train": FACTS, "valid": FACTS}
    record = RunRecord(recipe, EVENTS, corpora, report=REPORT, update=90)
    settings = FolderSettings(
        model=ModelSettings.parse(values["model"], "test"),
        tokenizer=recipe.tokenizer,
        search=recipe.search,
    )
    model = PublishedModel(
        folder=Path("run"),
        name="model",
        settings=settings,
        record=replace(record, **changes),
        languages=Languages(source="ko", target="en"),
        parameters=5,
        obstacles=(),
    )
    return PublishedModels(
        models=(model,),
        licence="MIT",
        author="A",
        origin="B",
        about="C",
        licence_text="D",
        has_page=True,
    )


def problems(models: PublishedModels, **sizes: int) -> list[str]:
    """Return what a checklist names."""
    return [item.problem for item in make_checklist(models, sizes, "")]


def test_nothing_is_missing_if_all_is_there() -> None:
    assert problems(published()) == []
    assert "Nothing is missing" in render_checklist(())


RECORDS: dict[str, dict[str, Any]] = {
    "never validated": {"events": EVENTS[:1]},
    "there is no test": {"events": EVENTS[:3]},
    "chrF 3 is of no use": {"events": [{**VALID, "chrf": 3.0}, *EVENTS[2:]]},
    "20 test pairs tell little": {"events": [*EVENTS, {**EVENTS[3], "pairs": 20}]},
    "the test is of update 90, and the weights are of 200": {
        "events": [*EVENTS, {**VALID, "update": 200}],
        "update": 200,
    },
    "the last validation is of update 90, and training went on to 95": {
        "events": [*EVENTS, {**EVENTS[2], "update": 95}]
    },
    "9 validation pairs tell little": {"corpora": {"valid": replace(FACTS, pairs=9)}},
    "3 of 500 pairs are also in train": {
        "report": ("test: 3 of 500 pairs are also in train (lines 1, 2, 3)",)
    },
    "is not recorded": {"report": ()},
    "how the model was made is not recorded": {"recipe": None},
    "name folders of your machine, such as C:": {
        "files": {"train.source": {"path": "C:\\texts\\a", "bytes": 1, "sha256": "0"}}
    },
}


@pytest.mark.parametrize("problem", RECORDS)
def test_the_checklist_names_what_a_run_lacks(problem: str) -> None:
    named = problems(published(**RECORDS[problem]))
    assert any(problem in other for other in named), named


def test_a_training_that_was_stopped_before_its_test_is_resumed_for_it() -> None:
    corpora = {"train": FACTS, "valid": FACTS, "test": FACTS}
    (item,) = make_checklist(published(events=EVENTS[:3], corpora=corpora), {}, "")
    assert item.problem == "training was stopped before its test"
    assert item.remedy == "go on with `regard train --out run --resume`"
    assert "It was not tested" in item.warning


def test_a_model_without_scores_lacks_a_test_too() -> None:
    first, second = problems(published(events=EVENTS[:1]))
    assert first == "the model was never validated"
    assert second.startswith("there is no test")


def test_files_that_hosts_refuse_are_named() -> None:
    named = problems(published(), small=24_000_000, large=26_000_000, huge=101_000_000)
    assert [problem.split()[:3] for problem in named] == [
        ["large", "has", "26"],
        ["huge", "has", "101"],
    ]


def test_a_card_warns_of_scores_that_mean_little() -> None:
    def warning(**changes: Any) -> str:
        return card_body(published(**changes), "regard publish", is_inside=False)

    assert "drafts" not in warning()
    assert "of no use for drafts" in warning(events=[{**VALID, "chrf": 3.0}])
    assert "BLEU says nothing" in warning(events=[{**VALID, "bleu": 0.0}])
    assert "was not tested" in warning(events=EVENTS[:3])
    assert "nobody knows how good" in warning(events=[])
    assert "scores flatter" in warning(report=("valid: 3 pairs are also in train",))


@pytest.mark.parametrize(
    "line",
    [
        "valid: none of its 2 images is also in train",
        "valid: 0 of 3 pairs are also in train",
        "test: none of its 500 pairs shares a side with train",
    ],
)
def test_nothing_in_common_with_training_is_no_fault(line: str) -> None:
    models = published(report=(line,))
    assert problems(models) == []
    assert "scores flatter" not in card_body(models, "regard publish", is_inside=False)


def test_a_captioner_lacks_images_and_captions_and_no_pairs() -> None:
    shared = "valid: 1 of 9 images is also in train (a.png)"
    models = published(
        events=EVENTS[:3], report=(shared,), corpora={"valid": replace(FACTS, pairs=9)}
    )
    model = models.models[0]
    settings = model.settings.model_copy(update={"images": ImageSizeSettings()})
    models = replace(models, models=(replace(model, settings=settings),))
    items = {
        item.problem: item.remedy for item in make_checklist(models, {}, examples="")
    }
    assert items[f"{shared}, so that scores flatter"].startswith("take these images")
    assert "9 validation captions tell little" in items
    assert not any("validation pair" in problem for problem in items)


def test_sentences_of_the_data_are_not_on_the_card() -> None:
    report = ("train: 3 pairs read", "  dropped, empty: 1", "    line 3: my secret")
    body = card_body(published(report=report), "regard publish", is_inside=False)
    assert "dropped, empty: 1" in body
    assert "my secret" not in body


def test_metadata_are_yaml_for_every_language_and_licence() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    models = published()
    norwegian = replace(
        models.models[0], languages=Languages(source="no", target="x-own")
    )
    models = replace(models, models=(norwegian,), licence="LicenseRef-own OR MIT")
    head = yaml.safe_load(card_metadata(models).strip("-\n"))
    assert head["language"] == ["no"], "and not false"
    assert head["license"] == "other"
    assert head["license_name"] == "licenseref-own-or-mit"
    assert head["model-index"][0]["results"][0]["metrics"][1]["value"] == 45.0
    values = {"a": ["no", "yes", "1", 1, "a: b", "→", ""], "b": {"c": "null"}}
    assert yaml.safe_load("\n".join(published_card._yaml(values))) == values


def test_texts_of_licences_are_those_of_their_authors() -> None:
    for name, path in SHIPPED.items():
        assert canonical_licence(name) == name
        text = path.read_text(encoding="utf-8")
        assert licences.licence_text(name, "A") != ""
        if (COMMON / name).is_file():
            assert text.split() == (COMMON / name).read_text("utf-8").split()
    assert licences.licence_text("MIT", "") == ""
    assert licences.licence_text("GPL-3.0-only", "A") == ""
    assert licences.licence_address("LicenseRef-own") == ""
    for name in (*licences._SAME_IDS, *licences._CHANGED_IDS):
        assert canonical_licence(name) == name
