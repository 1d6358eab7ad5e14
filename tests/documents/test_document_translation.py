"""A file made of a file in one call: whole or not at all, equal to what its parts make."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from helpers.small_models import folder
from repository.pages import DOCS, fenced

import regard
from regard import Translator
from regard.common.errors import DataError, UsageError
from regard.documents.document import DocumentText, EditedText, value_slot
from regard.documents.document_translation import translated_document
from regard.documents.encoding import EncodedText
from regard.pipeline import translator as translator_module
from regard.text.translation import TranslatedPart, Translation

PAGE = "<p>나는 <b>집에</b> 간다</p>\r\n<!-- 1 --><p>나는 빵을 먹고 있었다</p>"


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    path = tmp_path_factory.mktemp("model") / "run"
    folder(path, end=2.0)
    return regard.load(path)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_bytes(PAGE.encode())
    return path


def test_a_file_is_made_of_a_file(translator: Translator, page: Path) -> None:
    output = page.with_name("out.html")
    result = translator.translate_document(page, output)
    assert output.read_bytes() == result.data
    assert [path.name for path in page.parent.iterdir()] == ["page.html", "out.html"]

    document = regard.documents.open(page)
    written = document.render(translator.begin_document(document).run())
    assert result.data == written
    assert translator.translate_document(document).data == written
    assert (result.texts, result.characters) == (2, 20)
    assert result.media_type == "text/html"


def test_chunks_do_not_matter(
    translator: Translator, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = translator.translate_document(page)
    monkeypatch.setattr(translator_module, "CHUNK", 1)
    assert translator.translate_document(page) == whole


def test_packed_files_are_packed_again(translator: Translator, page: Path) -> None:
    packed = page.with_name("page.html.gz")
    packed.write_bytes(gzip.compress(PAGE.encode(), mtime=0))
    output = page.with_name("out.html.gz")
    result = translator.translate_document(str(packed), str(output))
    assert gzip.decompress(output.read_bytes()) == result.data
    assert result == translator.translate_document(page)


def test_what_cannot_be_done_leaves_nothing(translator: Translator, page: Path) -> None:
    output = page.with_name("out.html")
    output.write_text("before")
    broken = page.with_name("broken.html")
    broken.write_bytes(b"<p>\xff</p>")
    for source, where, error, reason in (
        (page.with_name("no.html"), output, DataError, "cannot be read"),
        (broken, output, DataError, "line 1 is not UTF-8"),
        (page, page.with_name("no") / "out.html", DataError, "is in no folder"),
        (page, page.parent, DataError, "is a folder"),
        (page.with_name("no.text"), output, DataError, "cannot be read"),
    ):
        with pytest.raises(error, match=reason):
            translator.translate_document(source, where)
    with pytest.raises(UsageError, match="beam"):
        translator.translate_document(page, output, beam=0)
    with pytest.raises(UsageError, match="klingon"):
        translator.translate_document(page, output, dialect="klingon")
    assert output.read_text() == "before"
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "broken.html",
        "out.html",
        "page.html",
    ]


def test_the_result_names_what_a_person_has_to_see() -> None:
    """Notes of the document, and those of its texts by their names, each text once."""
    source = EncodedText("a = One.\nb = Two.\\nThree.\n")
    slots = [
        value_slot(4, 8, DocumentText("One.", "key a")),
        value_slot(
            13,
            25,
            DocumentText("Two.\nThree.", "key b"),
            lambda text: text.replace("\n", "\\n"),
        ),
    ]
    document = EditedText(source, slots, ["1 text stays"])
    lines = [
        Translation("Eins.", (), 0.0, parts=parts(0.9), notes=("repeats",)),
        Translation("Zwei.", (), 0.0, parts=parts(0.4), broken=True, doubtful=True),
        Translation("Drei.", (), 0.0, parts=parts(0.8), broken=True),
    ]
    result = translated_document(document, lines)
    assert result.data == b"a = Eins.\nb = Zwei.\\nDrei.\n"
    assert result.notes == ("1 text stays", "key a: repeats")
    assert (result.broken, result.doubtful) == (("key b",), ("key b",))
    assert (result.quality, result.texts) == (0.4, 2)


def test_a_script_that_the_model_does_not_read_stays(
    translator: Translator, page: Path
) -> None:
    page.write_text("<p>나는 간다</p>\n<p>Я <b>ем</b> хлеб</p>\n", encoding="utf-8")
    result = translator.translate_document(page)
    assert result.data.decode().endswith("\n<p>Я <b>ем</b> хлеб</p>\n")
    (note,) = (note for note in result.notes if "never seen in training" in note)
    assert note.startswith("line 2, sentence 2: stays as it is")


def parts(quality: float) -> tuple[TranslatedPart, ...]:
    return (TranslatedPart("", "", 0.0, quality=quality),)


def test_limits_of_texts_are_kept_or_marked(translator: Translator) -> None:
    line = "나는 빵을 먹고 있었다"
    texts = [DocumentText(line, "a"), DocumentText(line, "b", max_characters=1)]
    slots = [value_slot(0, 0, text) for text in texts]
    document = EditedText(EncodedText(""), slots)
    free, limited = translator.translate_lines_of(document, slice(0, 2))
    assert not free.broken
    assert limited.broken or len(limited.text) <= 1
    (again,) = translator.translate_lines_of(document, slice(1, 2))
    assert again == limited
    (own,) = translator.translate_lines_of(document, slice(0, 1), max_characters=1)
    assert own == limited

    both = DocumentText(f"{line}\n{line}", "c", max_characters=9)
    document = EditedText(EncodedText(""), [value_slot(0, 0, both)])
    halves = translator.translate_lines_of(document, slice(0, 2))
    length = len("\n".join(half.text for half in halves))
    assert length <= 9 or any(half.broken for half in halves)


def test_the_page_of_documents_translates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Path
) -> None:
    folder(tmp_path / "runs" / "first", end=2.0)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in fenced(DOCS / "documents.md", "python")[:2]:
        exec(compile(code, "documents.md", "exec"), names)
    assert names["written"] == Path("page.en.html").read_bytes()


@pytest.mark.parametrize("is_opened", [False, True])
def test_an_output_of_another_ending_is_refused(
    translator: Translator, page: Path, is_opened: bool
) -> None:
    output = page.with_name("out.docx")
    document = regard.documents.open(page) if is_opened else page
    with pytest.raises(UsageError, match=r"is HTML, and stays so; .* in \.html"):
        translator.translate_document(document, output)
    assert not output.exists()
    translator.translate_document(document, page.with_name("out"))
