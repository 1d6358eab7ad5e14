"""The Korean–English corpus is correct in both languages, each side determines the other, its
splits are disjoint.

Run as a script, this file writes the large samples: without annotation checks, and with another
PYTHONHASHSEED, on which nothing may depend.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.cached_folders import PACKAGE, FolderCache
from helpers.text_table import items, lines, rows

from regard.common.errors import UsageError
from regard.learn.samples import AlignedPair, Sample, english, korean, korean_english
from regard.learn.samples.conjugation import Stem, conjugate
from regard.learn.samples.derivation import Clause, Frame, Sentence
from regard.learn.samples.grammar import Grammar
from regard.learn.samples.hangul import (
    particle,
)
from regard.learn.samples.korean_english_corpus import SIZES, held_out
from regard.learn.samples.lexicon import (
    ADVERBS,
    COORDINATING,
    GREETINGS,
    PEOPLE,
    PLACES,
    SUBORDINATING,
    THINGS,
    TIMES,
    VEHICLES,
    VOCATIVES,
)
from regard.learn.samples.realisation import realise
from regard.learn.samples.verbs import VERBS

# Written by hand, from knowledge of Korean; never to be filled in from the code.
COLUMNS = "다 요 었다 었어요 고 지만 었고 었지만 지 기 었기 는 을 었을 은 으면".split()  # noqa: SIM905
CONJUGATION = """
먹 먹는다 먹어요 먹었다 먹었어요 먹고 먹지만 먹었고 먹었지만 먹지 먹기 먹었기 먹는 먹을 먹었을 먹은 먹으면
마시 마신다 마셔요 마셨다 마셨어요 마시고 마시지만 마셨고 마셨지만 마시지 마시기 마셨기 마시는 마실 마셨을 마신 마시면
읽 읽는다 읽어요 읽었다 읽었어요 읽고 읽지만 읽었고 읽었지만 읽지 읽기 읽었기 읽는 읽을 읽었을 읽은 읽으면
쓰 쓴다 써요 썼다 썼어요 쓰고 쓰지만 썼고 썼지만 쓰지 쓰기 썼기 쓰는 쓸 썼을 쓴 쓰면
사 산다 사요 샀다 샀어요 사고 사지만 샀고 샀지만 사지 사기 샀기 사는 살 샀을 산 사면
팔 판다 팔아요 팔았다 팔았어요 팔고 팔지만 팔았고 팔았지만 팔지 팔기 팔았기 파는 팔 팔았을 판 팔면
만들 만든다 만들어요 만들었다 만들었어요 만들고 만들지만 만들었고 만들었지만 만들지 만들기 만들었기 만드는 만들 만들었을 만든 만들면
요리하 요리한다 요리해요 요리했다 요리했어요 요리하고 요리하지만 요리했고 요리했지만 요리하지 요리하기 요리했기 요리하는 요리할 요리했을 요리한 요리하면
씻 씻는다 씻어요 씻었다 씻었어요 씻고 씻지만 씻었고 씻었지만 씻지 씻기 씻었기 씻는 씻을 씻었을 씻은 씻으면
청소하 청소한다 청소해요 청소했다 청소했어요 청소하고 청소하지만 청소했고 청소했지만 청소하지 청소하기 청소했기 청소하는 청소할 청소했을 청소한 청소하면
고르 고른다 골라요 골랐다 골랐어요 고르고 고르지만 골랐고 골랐지만 고르지 고르기 골랐기 고르는 고를 골랐을 고른 고르면
빌리 빌린다 빌려요 빌렸다 빌렸어요 빌리고 빌리지만 빌렸고 빌렸지만 빌리지 빌리기 빌렸기 빌리는 빌릴 빌렸을 빌린 빌리면
짓 짓는다 지어요 지었다 지었어요 짓고 짓지만 지었고 지었지만 짓지 짓기 지었기 짓는 지을 지었을 지은 지으면
열 연다 열어요 열었다 열었어요 열고 열지만 열었고 열었지만 열지 열기 열었기 여는 열 열었을 연 열면
닫 닫는다 닫아요 닫았다 닫았어요 닫고 닫지만 닫았고 닫았지만 닫지 닫기 닫았기 닫는 닫을 닫았을 닫은 닫으면
그리 그린다 그려요 그렸다 그렸어요 그리고 그리지만 그렸고 그렸지만 그리지 그리기 그렸기 그리는 그릴 그렸을 그린 그리면
보 본다 봐요 봤다 봤어요 보고 보지만 봤고 봤지만 보지 보기 봤기 보는 볼 봤을 본 보면
듣 듣는다 들어요 들었다 들었어요 듣고 듣지만 들었고 들었지만 듣지 듣기 들었기 듣는 들을 들었을 들은 들으면
부르 부른다 불러요 불렀다 불렀어요 부르고 부르지만 불렀고 불렀지만 부르지 부르기 불렀기 부르는 부를 불렀을 부른 부르면
치 친다 쳐요 쳤다 쳤어요 치고 치지만 쳤고 쳤지만 치지 치기 쳤기 치는 칠 쳤을 친 치면
공부하 공부한다 공부해요 공부했다 공부했어요 공부하고 공부하지만 공부했고 공부했지만 공부하지 공부하기 공부했기 공부하는 공부할 공부했을 공부한 공부하면
배우 배운다 배워요 배웠다 배웠어요 배우고 배우지만 배웠고 배웠지만 배우지 배우기 배웠기 배우는 배울 배웠을 배운 배우면
가르치 가르친다 가르쳐요 가르쳤다 가르쳤어요 가르치고 가르치지만 가르쳤고 가르쳤지만 가르치지 가르치기 가르쳤기 가르치는 가르칠 가르쳤을 가르친 가르치면
주 준다 줘요 줬다 줬어요 주고 주지만 줬고 줬지만 주지 주기 줬기 주는 줄 줬을 준 주면
보내 보낸다 보내요 보냈다 보냈어요 보내고 보내지만 보냈고 보냈지만 보내지 보내기 보냈기 보내는 보낼 보냈을 보낸 보내면
좋아하 좋아한다 좋아해요 좋아했다 좋아했어요 좋아하고 좋아하지만 좋아했고 좋아했지만 좋아하지 좋아하기 좋아했기 좋아하는 좋아할 좋아했을 좋아한 좋아하면
이 이다 이에요 이었다 이었어요 이고 이지만 이었고 이었지만 이지 이기 이었기 이는 일 이었을 인 이면
만나 만난다 만나요 만났다 만났어요 만나고 만나지만 만났고 만났지만 만나지 만나기 만났기 만나는 만날 만났을 만난 만나면
기다리 기다린다 기다려요 기다렸다 기다렸어요 기다리고 기다리지만 기다렸고 기다렸지만 기다리지 기다리기 기다렸기 기다리는 기다릴 기다렸을 기다린 기다리면
돕 돕는다 도와요 도왔다 도왔어요 돕고 돕지만 도왔고 도왔지만 돕지 돕기 도왔기 돕는 도울 도왔을 도운 도우면
자 잔다 자요 잤다 잤어요 자고 자지만 잤고 잤지만 자지 자기 잤기 자는 잘 잤을 잔 자면
달리 달린다 달려요 달렸다 달렸어요 달리고 달리지만 달렸고 달렸지만 달리지 달리기 달렸기 달리는 달릴 달렸을 달린 달리면
걷 걷는다 걸어요 걸었다 걸었어요 걷고 걷지만 걸었고 걸었지만 걷지 걷기 걸었기 걷는 걸을 걸었을 걸은 걸으면
일하 일한다 일해요 일했다 일했어요 일하고 일하지만 일했고 일했지만 일하지 일하기 일했기 일하는 일할 일했을 일한 일하면
쉬 쉰다 쉬어요 쉬었다 쉬었어요 쉬고 쉬지만 쉬었고 쉬었지만 쉬지 쉬기 쉬었기 쉬는 쉴 쉬었을 쉰 쉬면
웃 웃는다 웃어요 웃었다 웃었어요 웃고 웃지만 웃었고 웃었지만 웃지 웃기 웃었기 웃는 웃을 웃었을 웃은 웃으면
울 운다 울어요 울었다 울었어요 울고 울지만 울었고 울었지만 울지 울기 울었기 우는 울 울었을 운 울면
춤추 춤춘다 춤춰요 춤췄다 춤췄어요 춤추고 춤추지만 춤췄고 춤췄지만 춤추지 춤추기 춤췄기 춤추는 춤출 춤췄을 춤춘 춤추면
수영하 수영한다 수영해요 수영했다 수영했어요 수영하고 수영하지만 수영했고 수영했지만 수영하지 수영하기 수영했기 수영하는 수영할 수영했을 수영한 수영하면
가 간다 가요 갔다 갔어요 가고 가지만 갔고 갔지만 가지 가기 갔기 가는 갈 갔을 간 가면
오 온다 와요 왔다 왔어요 오고 오지만 왔고 왔지만 오지 오기 왔기 오는 올 왔을 온 오면
돌아가 돌아간다 돌아가요 돌아갔다 돌아갔어요 돌아가고 돌아가지만 돌아갔고 돌아갔지만 돌아가지 돌아가기 돌아갔기 돌아가는 돌아갈 돌아갔을 돌아간 돌아가면
"""
ENGLISH = """
eat eats ate eating · drink drinks drank drinking · read reads read reading · write writes wrote writing
buy buys bought buying · sell sells sold selling · make makes made making · cook cooks cooked cooking
wash washes washed washing · clean cleans cleaned cleaning · choose chooses chose choosing
borrow borrows borrowed borrowing · build builds built building · open opens opened opening
close closes closed closing · draw draws drew drawing · watch watches watched watching
listen listens listened listening · sing sings sang singing · play plays played playing
study studies studied studying · learn learns learned learning · teach teaches taught teaching
give gives gave giving · send sends sent sending · like likes liked liking · meet meets met meeting
wait waits waited waiting · help helps helped helping · call calls called calling · sleep sleeps slept sleeping
run runs ran running · walk walks walked walking · work works worked working · rest rests rested resting
laugh laughs laughed laughing · cry cries cried crying · dance dances danced dancing · swim swims swam swimming
go goes went going · come comes came coming · return returns returned returning
"""
GROUPS = """
present                              | 먹는다 | 먹어요 | 먹고 | 먹고 | eat
past                                 | 먹었다 | 먹었어요 | 먹었고 | 먹었고 | ate
future                               | 먹을 것이다 | 먹을 거예요 | 먹을 것이고 | 먹을 거고 | will eat
present progressive                  | 먹고 있다 | 먹고 있어요 | 먹고 있고 | 먹고 있고 | are eating
past progressive                     | 먹고 있었다 | 먹고 있었어요 | 먹고 있었고 | 먹고 있었고 | were eating
future progressive                   | 먹고 있을 것이다 | 먹고 있을 거예요 | 먹고 있을 것이고 | 먹고 있을 거고 | will be eating
present negative                     | 먹지 않는다 | 먹지 않아요 | 먹지 않고 | 먹지 않고 | do not eat
past negative                        | 먹지 않았다 | 먹지 않았어요 | 먹지 않았고 | 먹지 않았고 | did not eat
future negative                      | 먹지 않을 것이다 | 먹지 않을 거예요 | 먹지 않을 것이고 | 먹지 않을 거고 | will not eat
present progressive negative         | 먹고 있지 않다 | 먹고 있지 않아요 | 먹고 있지 않고 | 먹고 있지 않고 | are not eating
past progressive negative            | 먹고 있지 않았다 | 먹고 있지 않았어요 | 먹고 있지 않았고 | 먹고 있지 않았고 | were not eating
future progressive negative          | 먹고 있지 않을 것이다 | 먹고 있지 않을 거예요 | 먹고 있지 않을 것이고 | 먹고 있지 않을 거고 | will not be eating
present negative short               | 안 먹는다 | 안 먹어요 | 안 먹고 | 안 먹고 | don't eat
past negative short                  | 안 먹었다 | 안 먹었어요 | 안 먹었고 | 안 먹었고 | didn't eat
future progressive negative short    | 안 먹고 있을 것이다 | 안 먹고 있을 거예요 | 안 먹고 있을 것이고 | 안 먹고 있을 거고 | won't be eating
present progressive negative short   | 안 먹고 있다 | 안 먹고 있어요 | 안 먹고 있고 | 안 먹고 있고 | aren't eating
present negative able                | 먹지 못한다 | 먹지 못해요 | 먹지 못하고 | 먹지 못하고 | cannot eat
past negative able                   | 먹지 못했다 | 먹지 못했어요 | 먹지 못했고 | 먹지 못했고 | could not eat
present negative short able          | 못 먹는다 | 못 먹어요 | 못 먹고 | 못 먹고 | can't eat
past negative short able             | 못 먹었다 | 못 먹었어요 | 못 먹었고 | 못 먹었고 | couldn't eat
"""
"""Frame, then its verb group: plain, polite, before "and", before "and" in polite speech, and in
English after "they".
"""
SMALL = {"train": 300, "valid": 20, "test": 20, "recombination": 20, "length": 40}
LARGE = {**SIZES, "train": 10_000}


def write_samples(folder: Path) -> None:
    """Write the data of the tests to a folder: the corpus, a small one, and sentences sampled
    without selection.
    """
    korean_english(3, SMALL).write(folder / "small", "ko", "en")
    korean_english(sizes=LARGE).write(folder / "corpus", "ko", "en")
    rows = []
    for seed in range(10):
        grammar = Grammar(random.Random(seed))
        for length in range(300):
            pair = realise(grammar.sentence(2 + length % 7))
            rows.append(f"{pair.source}\t{pair.target}\n")

    (folder / "pairs").write_text("".join(rows), encoding="utf-8")


def read_sample(folder: Path) -> Sample:
    """Read a sample from its files."""
    splits = {}
    for name in SIZES:
        files = [folder / f"{name}.{ending}" for ending in ("ko", "en", "align")]
        texts = [path.read_text(encoding="utf-8").splitlines() for path in files]
        pairs = []
        for source, target, line in zip(*texts, strict=True):
            links = [link.split("-") for link in line.split()]
            numbers = tuple((int(i), int(j)) for i, j in links)
            pairs.append(AlignedPair(source, target, numbers))

        splits[name] = tuple(pairs)

    return Sample(splits)


@pytest.fixture(scope="module")
def sample_folder(cached: FolderCache) -> Path:
    return cached(
        "samples",
        _write_in_a_process,
        PACKAGE / "learn" / "samples",
        PACKAGE / "common",
        Path(__file__),
    )


def _write_in_a_process(folder: Path) -> None:
    """Write the data with another seed of Python's hashes, on which nothing may depend."""
    folders = [PACKAGE.parent, PACKAGE.parent / "tests"]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "17",
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
    }
    subprocess.run([sys.executable, __file__, str(folder)], env=environment, check=True)


@pytest.fixture(scope="module")
def corpus(sample_folder: Path) -> Sample:
    return read_sample(sample_folder / "corpus")


@pytest.fixture(scope="module")
def small() -> Sample:
    return korean_english(3, SMALL)


def lexeme(english_verb: str):
    return next(verb for verb in VERBS if verb.english == english_verb)


def connective(name: str):
    return next(
        entry for entry in COORDINATING + SUBORDINATING if entry.english == name
    )


def noun(name: str):
    return next(noun for noun in PEOPLE + THINGS + PLACES if noun.english == name)


def gloss(pair: AlignedPair) -> str:
    """Return the links as words."""
    source = pair.source.split()
    target = pair.target.split()
    return " ".join(f"{source[i]}={target[j]}" for i, j in pair.links)


# --- Korean and English forms ---


def test_conjugation_agrees_with_the_table() -> None:
    forms = {}
    for stem in (verb.stem for verb in VERBS):
        endings = [
            (column.removeprefix("었") or column, column[0] == "었")
            for column in COLUMNS
        ]
        forms[stem.text] = [conjugate(stem, ending, past) for ending, past in endings]

    assert forms == {stem: own for stem, *own in map(str.split, lines(CONJUGATION))}


@pytest.mark.parametrize(
    ("text", "kind", "ending", "past", "expected"),
    rows("""
        굽   | ㅂ      | 요   |      | 구워요
        굽   | ㅂ      | 으면 |      | 구우면
        모으 | regular | 요   |      | 모아요
        되   | regular | 요   |      | 돼요
        켜   | regular | 다   | past | 켰다
        서   | regular | 다   | past | 섰다
        낫   | ㅅ      | 요   |      | 나아요
        흐르 | 르      | 다   | past | 흘렀다
    """),
)
def test_stems_beyond_the_lexicon_are_conjugated(
    text: str, kind: str, ending: str, past: str, expected: str
) -> None:
    assert conjugate(Stem(text, kind), ending, bool(past)) == expected


def test_english_verbs_agree_with_the_table() -> None:
    table = [row.split() for line in lines(ENGLISH) for row in line.split(" · ")]
    forms = []
    for verb in VERBS:
        base = verb.english
        if not verb.copula:
            third = english.third_person(base)
            forms.append([base, third, verb.past, english.participle(base)])

    assert sorted(forms) == sorted(table)


@pytest.mark.parametrize(
    ("frame", "plain", "polite", "plain_and", "polite_and", "they"), rows(GROUPS)
)
def test_verb_groups_agree_with_the_table(
    frame: str, plain: str, polite: str, plain_and: str, polite_and: str, they: str
) -> None:
    tense, *flags = frame.split()
    parsed = Frame(tense, **dict.fromkeys(flags, True))
    eat = lexeme("eat")

    def group(connective: Any, is_polite: bool) -> str:
        words = korean.predicate(eat, parsed, connective, is_polite)
        return " ".join(word.text for word in words)

    assert group(None, False) == plain
    assert group(None, True) == polite
    assert group(COORDINATING[0], False) == plain_and
    assert group(COORDINATING[0], True) == polite_and

    words = english.predicate(eat, parsed, "plural")
    assert " ".join(word.text for word in words) == they


@pytest.mark.parametrize(
    ("word", "role", "expected"),
    rows("""
        민지   | topic   | 민지는
        학생   | topic   | 학생은
        친구   | subject | 친구가
        이웃   | subject | 이웃이
        사과   | object  | 사과를
        빵     | object  | 빵을
        의사   | with    | 의사와
        지훈   | with    | 지훈과
        버스   | means   | 버스로
        지하철 | means   | 지하철로
        트럭   | means   | 트럭으로
        사무실 | at      | 사무실에서
        집     | to      | 집에
        수진   | for     | 수진에게
    """),
)
def test_particles_follow_the_final_consonant(
    word: str, role: str, expected: str
) -> None:
    assert particle(word, role) == expected


@pytest.mark.parametrize(
    ("name", "role", "plain", "polite"),
    rows("""
        I   | topic   | 나는   | 저는
        I   | subject | 내가   | 제가
        you | subject | 네가   | 네가
        we  | subject | 우리가 | 저희가
        she | topic   | 그녀는 | 그녀는
    """),
)
def test_pronouns_change_before_ga_and_in_polite_speech(
    name: str, role: str, plain: str, polite: str
) -> None:
    for is_polite, expected in ((False, plain), (True, polite)):
        (word,) = korean.phrase((noun(name),), "subject", role, is_polite)
        assert word.text == expected


# --- Whole sentences, written by hand ---


def test_the_first_two_sentences_are_fixed_with_their_links(corpus: Sample) -> None:
    home, bread = corpus.splits["train"][:2]
    assert home == AlignedPair("나는 집에 간다", "I go home", ((0, 0), (1, 2), (2, 1)))

    links = ((0, 0), (1, 3), (2, 2), (3, 1))
    assert bread == AlignedPair("나는 빵을 먹고 있었다", "I was eating bread", links)


def test_a_subordinate_clause_in_polite_speech_is_realised() -> None:
    when = connective("when")
    came = Clause(
        Frame("past"),
        lexeme("come"),
        (noun("student"), noun("I")),
        place=noun("school"),
        means=VEHICLES[3],
    )
    was = Clause(
        Frame("past", True, True),
        lexeme("wait"),
        (noun("we"),),
        objects=(noun("Sujin"),),
        time=TIMES[0],
    )
    pair = realise(Sentence((came, was), (when,), VOCATIVES[0]))

    assert (
        pair.source
        == "선생님, 학생과 제가 지하철로 학교에 왔을 때 저희는 어제 수진을 기다리고 있지 않았어요"
    )
    assert pair.target == (
        "Teacher, when the student and I came to the school by underground, "
        "we were not waiting for Sujin yesterday"
    )
    assert gloss(pair) == (
        "선생님,=Teacher, 학생과=the 학생과=student 학생과=and 제가=I 지하철로=by "
        "지하철로=underground, 학교에=to 학교에=the 학교에=school 왔을=came 때=when 저희는=we "
        "어제=yesterday 수진을=for 수진을=Sujin 기다리고=waiting 있지=were 않았어요=were 않았어요=not"
    )


def test_coordinate_clauses_with_all_parts_are_realised() -> None:
    gave = Clause(
        Frame("past"),
        lexeme("give"),
        (noun("Minji"),),
        objects=(noun("umbrella"), noun("map")),
        recipient=noun("he"),
        place=noun("park"),
        time=next(time for time in TIMES if time.english == "last week"),
    )
    will = Clause(
        Frame("future"),
        lexeme("play"),
        (noun("they"),),
        objects=(noun("piano"),),
        companion=noun("I"),
        adverb=next(adverb for adverb in ADVERBS if adverb.english == "happily"),
    )
    pair = realise(Sentence((gave, will), (COORDINATING[1],)))

    assert pair.source == (
        "민지는 지난주에 공원에서 그에게 우산과 지도를 줬지만 "
        "그들은 나와 함께 피아노를 즐겁게 칠 것이다"
    )
    assert pair.target == (
        "Minji gave an umbrella and a map to him in the park last week, "
        "but they will play the piano happily with me"
    )

    links = gloss(pair).split()
    assert "줬지만=but" in links
    assert [link for link in links if link.startswith("지난주에")] == [
        "지난주에=last",
        "지난주에=week,",
    ]
    assert {"나와=with", "나와=me", "함께=with"} <= set(links)


@pytest.mark.parametrize(
    ("name", "progressive", "source", "target"),
    rows("""
        because |             | 내가 웃었기 때문에 그는 운다  | Because I laughed, he cries
        after   |             | 내가 웃은 후에 그는 운다      | After I laughed, he cries
        before  |             | 내가 웃기 전에 그는 운다      | Before I laughed, he cries
        while   | progressive | 내가 웃는 동안 그는 운다      | While I was laughing, he cries
        and     |             | 나는 웃었고 그는 운다         | I laughed, and he cries
        but     | progressive | 나는 웃고 있었지만 그는 운다  | I was laughing, but he cries
    """),
)
def test_connectives_agree_with_hand_written_sentences(
    name: str, progressive: str, source: str, target: str
) -> None:
    first = Clause(Frame("past", bool(progressive)), lexeme("laugh"), (noun("I"),))
    second = Clause(Frame("present"), lexeme("cry"), (noun("he"),))
    pair = realise(Sentence((first, second), (connective(name),)))

    assert (pair.source, pair.target) == (source, target)


@pytest.mark.parametrize(
    ("subject", "what", "frame", "form", "source", "target"),
    rows("""
        I     | student | present          |           | 나는 학생이다                      | I am a student
        he    | student | past             |           | 그는 학생이었다                    | He was a student
        he    | doctor  | past             |           | 그는 의사였다                      | He was a doctor
        Minji | student | future           |           | 민지는 학생일 것이다               | Minji will be a student
        I     | student | present negative |           | 나는 학생이 아니다                 | I am not a student
        I     | doctor  | present          | greeting  | 안녕하세요, 저는 의사예요          | Hello, I am a doctor
        I     | student | present negative | greeting  | 안녕하세요, 저는 학생이 아니에요   | Hello, I am not a student
        I     | student | present          | full stop | 나는 학생이다.                     | I am a student.
    """),
)
def test_the_copula_agrees_with_hand_written_sentences(
    subject: str, what: str, frame: str, form: str, source: str, target: str
) -> None:
    tense, *negative = frame.split()
    parsed = Frame(tense, negative=bool(negative))
    clause = Clause(parsed, lexeme("be"), (noun(subject),), (noun(what),))
    greeting = GREETINGS[0] if form == "greeting" else None
    pair = realise(Sentence((clause,), (), None, greeting, form == "full stop"))

    assert (pair.source, pair.target) == (source, target)


def test_a_noun_that_makes_a_verb_is_parted_from_it_by_a_short_negation() -> None:
    frame = Frame("present", True, True, True)
    study = Clause(frame, lexeme("study"), (noun("I"),), (noun("Korean"),))
    pair = realise(Sentence((study,)))

    assert pair.source == "나는 한국어를 공부 안 하고 있다"
    assert pair.target == "I'm not studying Korean"
    assert gloss(pair).endswith("공부=studying 안=not 하고=studying 있다=I'm")

    frame = Frame("present", False, True, True)
    like = Clause(frame, lexeme("like"), (noun("I"),), (noun("milk"),))
    pair = realise(Sentence((like,), (), VOCATIVES[0], GREETINGS[0], True))

    assert pair.source == "안녕하세요, 선생님, 저는 우유를 안 좋아해요."
    assert pair.target == "Hello, Teacher, I don't like milk."


def test_each_side_determines_the_other(sample_folder: Path) -> None:
    text = (sample_folder / "pairs").read_text(encoding="utf-8")
    pairs = [line.split("\t") for line in text.splitlines()]

    assert len(pairs) == 3_000

    forth = dict(pairs)
    assert len(forth) > 1_500

    back = {target: source for source, target in pairs}
    assert len(back) == len(forth) == len({*map(tuple, pairs)})


# --- The corpus ---


def test_splits_have_their_sizes_and_lengths(corpus: Sample) -> None:
    assert {name: len(pairs) for name, pairs in corpus.splits.items()} == LARGE

    lengths = [len(pair.target.split()) for pair in corpus.splits["train"]]
    assert min(lengths) == 1
    assert max(lengths) == 80

    single = [greeting for greeting in GREETINGS if " " not in greeting.english]
    assert lengths.count(1) == 2 * len(single)

    short = [length for length in lengths if length <= 12]
    assert 0.73 < len(short) / len(lengths) < 0.77

    counts = Counter(len(pair.target.split()) for pair in corpus.splits["length"])
    assert sorted(counts) == list(range(2, 81))
    assert set(counts.values()) <= {6, 7}


def test_no_sentence_occurs_twice_and_every_word_is_linked(corpus: Sample) -> None:
    pairs = [pair for split in corpus.splits.values() for pair in split]
    assert len({pair.source for pair in pairs}) == len(pairs)
    assert len({pair.target for pair in pairs}) == len(pairs)
    for pair in pairs:
        sources, targets = map(set, zip(*pair.links, strict=True))
        assert sources == set(range(len(pair.source.split()))), pair
        assert targets == set(range(len(pair.target.split()))), pair
        assert list(pair.links) == sorted(set(pair.links))


def test_recombinations_do_not_occur_in_training(corpus: Sample) -> None:
    """An object stands before its verb, the last or the first of two, perhaps with one word
    between.
    """
    forms = {stem: own for stem, *own in map(str.split, lines(CONJUGATION))}
    combinations = []
    for verb, noun in held_out():
        stem = verb.stem.text
        verbs = "|".join([*forms[stem], stem.removesuffix("하")])
        for polite in (False, True):
            (alone,) = korean.phrase((noun,), "object", "object", polite)
            (first,) = korean.phrase((noun,), "object", "with", polite)
            objects = rf"(?:{alone.text}|{first.text} \S+[을를])"
            combinations.append(rf"\b{objects} (?:\S+ )?(?:{verbs})\b")

    pattern = re.compile("|".join(combinations))

    for name, pairs in corpus.splits.items():
        for pair in pairs:
            has_one = pattern.search(pair.source) is not None
            assert has_one is (name == "recombination"), pair


def test_politeness_follows_the_address(corpus: Sample) -> None:
    addresses = VOCATIVES + GREETINGS
    vocatives = tuple(f"{entry.english}," for entry in addresses)
    openings = {entry.korean for entry in addresses}
    familiar = {*items("너는 네가 너를 너와 너에게 선생님은 선생님이")}

    for pair in itertools.chain.from_iterable(corpus.splits.values()):
        assert pair.source.endswith(".") == pair.target.endswith(".")
        assert pair.target[0].isupper()
        assert pair.target.removesuffix(".")[-1].isalpha()

        sentence = pair.source.removesuffix(".").split(", ")[-1]
        if sentence in openings:
            continue
        is_polite = sentence.endswith("요")

        assert is_polite == pair.target.startswith(vocatives)
        assert is_polite or sentence.endswith("다")
        assert not is_polite or not familiar & set(sentence.split()), pair


def test_the_seed_determines_the_sample(sample_folder: Path, small: Sample) -> None:
    assert read_sample(sample_folder / "small") == small

    names = {f"{split}.{ending}" for split in SIZES for ending in ("ko", "en", "align")}
    assert {path.name for path in (sample_folder / "small").iterdir()} == names

    pair = small.splits["test"][0]
    back = small.reversed().splits["test"][0]

    assert (back.source, back.target) == (pair.target, pair.source)
    assert set(back.links) == {(j, i) for i, j in pair.links}
    assert small.reversed().reversed() == small

    other = korean_english(4, {**SMALL, "train": 50})
    assert other.splits["train"][2:] != small.splits["train"][2:50]
    assert held_out(3) == held_out(3)
    assert held_out(3) != held_out(4)


def test_lengths_can_be_set() -> None:
    def lengths(sample: Sample, name: str) -> list[int]:
        return [len(pair.target.split()) for pair in sample.splits[name]]

    few = dict.fromkeys(SIZES, 0)
    sizes = {**few, "train": 200, "length": 18}
    sample = korean_english(1, sizes, short=0.5, longest=10)

    assert max(lengths(sample, "train")) <= 10
    assert Counter(lengths(sample, "length")) == dict.fromkeys(range(2, 11), 2)

    long = korean_english(1, {**few, "train": 50}, short=0.0)
    assert min(lengths(long, "train")[2 + 2 * len(GREETINGS) :]) > 12


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"sizes": {"trian": 5, "test": -1}},
            "did you mean 'train'.*test wanted 0 or more, got -1",
        ),
        (
            {"sizes": {"length": 900}, "longest": 2},
            "length has 900 pairs.*ask for fewer",
        ),
        ({"short": 2.0}, "between 0 and 1"),
        ({"longest": 1}, "2 or more"),
    ],
)
def test_impossible_samples_are_refused(
    arguments: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=f"(?s){expected}"):
        korean_english(1, **arguments)


if __name__ == "__main__":
    write_samples(Path(sys.argv[1]))
