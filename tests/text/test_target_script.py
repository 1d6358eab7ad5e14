"""Lines in the script of the target are recognised by their letters alone."""

import pytest

from regard.text.language_note import is_in_target_script


@pytest.mark.parametrize(
    ("line", "pair", "expected"),
    [
        ("두 사람이 공원에서 자전거를 탄다.", ("en", "ko"), True),
        ("두 사람 (2), 3.5 km", ("en", "ko"), False),
        ("Two dogs 두", ("en", "ko"), False),
        ("Two dogs", ("ko", "en-GB"), True),
        ("Two dogs", ("de", "en"), False),
        ("Две собаки", ("en", "ru"), True),
        ("Две собаки", ("uk", "ru"), False),
        ("二人の男", ("en", "ja"), True),
        ("漢字", ("ja", "zh"), False),
        ("漢字", ("en", "zh-Hant"), True),
        ("한국", ("en", "ja"), False),
        ("12 (3)", ("en", "ko"), False),
        ("", ("en", "ko"), False),
        ("두 사람", ("", "ko"), False),
        ("두 사람", ("en", ""), False),
        ("שלום", ("en", "he"), True),
    ],
)
def test_letters_decide(line: str, pair: tuple[str, str], expected: bool) -> None:
    assert is_in_target_script(line, *pair) is expected
