"""Mnemonics of labels are taken out of a line, and put into its translation as the desktops write
them.
"""

from __future__ import annotations

import pytest
from helpers.text_table import lines, rows

from regard.data.letter_case import letter_case
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.text.mnemonics import LONGEST, insert_mnemonic, strip_mnemonic

TEXT = lines("""
    Open the file
    Exit now
    Save the text
    R and D
    drag and drop
    black and white
""")
ENCODE = Tokenizer.train(
    TEXT * 20, TEXT * 20, TokenizerSettings(size=340)
).source.encode


@pytest.mark.parametrize(
    ("line", "read", "mnemonic"),
    rows("""
        _File                               | File                               | _F
        &Open the file…                     | Open the file…                     | &O
        Save the _text                      | Save the text                      | _t
        E&xit                               | Exit                               | &x
        E_xit now                           | Exit now                           | _x
        ~File                               | File                               | ~F
        열기(_O)…                           | 열기…                              | _O
        파일 열기 (&2)                      | 파일 열기                          | &2
        _Файл                               | Файл                               | _Ф
        &Open {file_name}…                  | Open {file_name}…                  | &O
        _Open Recent Files Again            | Open Recent Files Again            | _O
        &Don't ask me again                 | Don't ask me again                 | &D
        Don't &Ask Me Again                 | Don't Ask Me Again                 | &A
        Show &All Hidden Files and Folders  | Show All Hidden Files and Folders  | &A
        Open Link in New &Tab               | Open Link in New Tab               | &T
        Open in the &Browser                | Open in the Browser                | &B
        Alle Dateien &Öffnen und Schließen… | Alle Dateien Öffnen und Schließen… | &Ö
        Print Background _Colours (Slow)    | Print Background Colours (Slow)    | _C
    """)
    + [["Save \U000f1900 &now", "Save \U000f1900 now", "&n"]],
)
def test_a_mnemonic_is_taken_out(line: str, read: str, mnemonic: str) -> None:
    assert strip_mnemonic(line, ENCODE) == (read, mnemonic)


@pytest.mark.parametrize(
    "line",
    lines("""
        _very important_ thing
        It takes long (~5)
        @_john says hi
        _id is missing here
        [_link text](x)
        Set the _private field now
        see note (_a)
        rock&roll
        if a&b then
        a~b
        x_y
        ~Paris is nice now
        I drink tea with John &Mary
        The teacher reads _Count today
        He met Mary &John in Berlin
        A man and a &Woman play
        Ich trinke Tee mit &Maria
        we saw John &Mary & Ann
        And then came &Anna.
        &Mary drinks tea with John.
        _Count is how many there are.
        &Why did "he" go home?
        Open (_O) the file
        My_file
        "_Hi there
        User_id is missing
        R&D
        drag&drop
        black&white
        this & that
        _so_ it is
        __init__
        a_b_c
        ~ten files
        &File _Open
        ?a=1&b=2
        _x
        &amp;
        $_GET
        f(x)
        5&6
    """)
    + ["", "&File" + " word" * (LONGEST // 5)],
)
def test_other_lines_have_none(line: str) -> None:
    assert strip_mnemonic(line, ENCODE) == (line, "")


@pytest.mark.parametrize(
    ("text", "mnemonic", "marked"),
    rows("""
        Datei öffnen            | _F | _Datei öffnen
        Bild öffnen             | &o | &Bild öffnen
        Neue Ordner             | &O | Neue &Ordner
        Beenden                 | _x | _Beenden
        Text                    | &x | &Text
        Файл                    | _F | _Файл
        열기…                   | _O | 열기(_O)…
        파일 열기:              | &o | 파일 열기(&O):
        開く                    | _O | 開く(_O)
        PDF로 저장              | &S | PDF로 저장(&S)
        12 %                    | _F | 12 %(_F)
        `x` %s schicken {name}  | _x | `x` %s _schicken {name}
        %s save                 | &s | %s &save
        열기 https://x.org/a    | &O | 열기 https://x.org/a (&O)
                                | _F | (_F)
        Datei                   |    | Datei
    """),
)
def test_a_mnemonic_is_put_into_a_translation(
    text: str, mnemonic: str, marked: str
) -> None:
    assert insert_mnemonic(text, mnemonic) == marked


@pytest.mark.parametrize(
    ("language", "mnemonic", "marked"),
    rows("""
        tr | _i | 취소(_İ)
        tr | &ı | 취소(&I)
        en | _i | 취소(_I)
        el | _ά | 취소(_Α)
    """),
)
def test_a_letter_in_brackets_is_a_capital_of_its_language(
    language: str, mnemonic: str, marked: str
) -> None:
    assert insert_mnemonic("취소", mnemonic, letter_case(language)) == marked
