"""Lexicon of the Korean–English grammar, except verbs.

Each English word of a role has one Korean word in that role, and vice versa; an article belongs to its noun. So each
side determines the other.
"""

from __future__ import annotations

from dataclasses import dataclass


# eq=False: entries are compared and hashed by identity, which is fast.
@dataclass(frozen=True, eq=False)
class Noun:
    """A person, thing or place with the article it always has; a place also has its preposition."""

    english: str
    korean: str
    article: str = ""
    preposition: str = ""


@dataclass(frozen=True, eq=False)
class Adverb:
    """An adverb of manner."""

    english: str
    korean: str


@dataclass(frozen=True, eq=False)
class Time:
    """A time expression; `fits` are the tenses it goes with (`habit`: simple present, `ongoing`: progressive)."""

    english: str
    korean: str
    fits: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Vocative:
    """Someone addressed, which makes the sentence polite. `bars` is the noun that such a sentence does not mention."""

    english: str
    korean: str
    bars: str = ""


@dataclass(frozen=True, eq=False)
class Connective:
    """A conjunction between clauses: a word in English, a verb ending and perhaps a noun in Korean.

    Before a `timeless` one Korean marks no tense, and English takes that of the following clause.
    `weight` is its relative frequency among its kind.
    """

    english: str
    ending: str
    noun: str = ""
    subordinate: bool = True
    timeless: bool = False
    weight: int = 1


def by_name(nouns: tuple[Noun, ...], names: str) -> tuple[Noun, ...]:
    """Return the nouns of these English names, separated by spaces; "post_office" is the post office."""
    known = {noun.english.replace(" ", "_"): noun for noun in nouns}
    return tuple(known[name] for name in names.split())


I, YOU, WE = Noun("I", "나"), Noun("you", "너"), Noun("we", "우리")  # noqa: E741
PRONOUNS = (I, YOU, Noun("he", "그"), Noun("she", "그녀"), WE, Noun("they", "그들"))
NAMES = (Noun("Minji", "민지"), Noun("Yuna", "유나"), Noun("Jihun", "지훈"), Noun("Sujin", "수진"))
PERSONS = (
    Noun("friend", "친구", "the"),
    Noun("teacher", "선생님", "the"),
    Noun("student", "학생", "the"),
    Noun("child", "아이", "the"),
    Noun("doctor", "의사", "the"),
    Noun("singer", "가수", "the"),
    Noun("neighbour", "이웃", "the"),
    Noun("farmer", "농부", "the"),
)
PEOPLE = PRONOUNS + NAMES + PERSONS
HONOURED = ("teacher",)  # polite speech would need honorific verbs for them, so it does not speak of them

FOOD = (
    Noun("bread", "빵"),
    Noun("rice", "밥"),
    Noun("apple", "사과", "an"),
    Noun("egg", "달걀", "an"),
    Noun("grapes", "포도"),
    Noun("meat", "고기"),
    Noun("fish", "생선"),
    Noun("noodles", "국수"),
    Noun("vegetables", "채소"),
    Noun("cake", "케이크", "a"),
)
DRINKS = (
    Noun("water", "물"),
    Noun("milk", "우유"),
    Noun("coffee", "커피"),
    Noun("tea", "차"),
    Noun("juice", "주스"),
)
TEXTS = (
    Noun("book", "책", "a"),
    Noun("newspaper", "신문", "a"),
    Noun("letter", "편지", "a"),
    Noun("novel", "소설", "a"),
    Noun("poem", "시", "a"),
    Noun("story", "이야기", "a"),
)
SHOWS = (
    Noun("film", "영화", "a"),
    Noun("television", "텔레비전"),
    Noun("news", "뉴스", "the"),
)
SOUNDS = (
    Noun("music", "음악"),
    Noun("song", "노래", "a"),
    Noun("radio", "라디오", "the"),
)
STUDIES = (
    Noun("Korean", "한국어"),
    Noun("English", "영어"),
    Noun("mathematics", "수학"),
    Noun("history", "역사"),
)
INSTRUMENTS = (
    Noun("piano", "피아노", "the"),
    Noun("guitar", "기타", "the"),
)
GOODS = (
    Noun("bag", "가방", "a"),
    Noun("hat", "모자", "a"),
    Noun("shoes", "신발"),
    Noun("clothes", "옷"),
    Noun("umbrella", "우산", "an"),
    Noun("clock", "시계", "a"),
    Noun("cup", "컵", "a"),
    Noun("plate", "접시", "a"),
    Noun("chair", "의자", "a"),
    Noun("box", "상자", "a"),
    Noun("gift", "선물", "a"),
    Noun("flowers", "꽃"),
)
OPENINGS = (
    Noun("door", "문", "a"),
    Noun("window", "창문", "a"),
)
BUILDINGS = (
    Noun("house", "집", "a"),
    Noun("bridge", "다리", "a"),
)
DRAWINGS = (
    Noun("picture", "그림", "a"),
    Noun("map", "지도", "a"),
)
KINDS = (FOOD, DRINKS, TEXTS, SHOWS, SOUNDS, STUDIES, INSTRUMENTS, GOODS, OPENINGS, BUILDINGS, DRAWINGS)
THINGS = tuple(noun for kind in KINDS for noun in kind)
PLACES = (
    Noun("home", "집", "", "at"),
    Noun("school", "학교", "the", "at"),
    Noun("library", "도서관", "the", "in"),
    Noun("market", "시장", "the", "at"),
    Noun("park", "공원", "the", "in"),
    Noun("hospital", "병원", "the", "at"),
    Noun("station", "역", "the", "at"),
    Noun("cafe", "카페", "the", "at"),
    Noun("restaurant", "식당", "the", "at"),
    Noun("kitchen", "부엌", "the", "in"),
    Noun("room", "방", "the", "in"),
    Noun("classroom", "교실", "the", "in"),
    Noun("garden", "정원", "the", "in"),
    Noun("office", "사무실", "the", "at"),
    Noun("museum", "박물관", "the", "at"),
    Noun("bookshop", "서점", "the", "at"),
    Noun("theatre", "극장", "the", "at"),
    Noun("shop", "가게", "the", "at"),
    Noun("sea", "바다", "the", "in"),
    Noun("lake", "호수", "the", "in"),
    Noun("post office", "우체국", "the", "at"),
)
VEHICLES = (
    Noun("bus", "버스"),
    Noun("train", "기차"),
    Noun("taxi", "택시"),
    Noun("underground", "지하철"),
    Noun("bicycle", "자전거"),
)
ADVERBS = (
    Adverb("quickly", "빨리"),
    Adverb("slowly", "천천히"),
    Adverb("quietly", "조용히"),
    Adverb("loudly", "크게"),
    Adverb("carefully", "조심스럽게"),
    Adverb("happily", "즐겁게"),
    Adverb("deeply", "깊이"),
    Adverb("hard", "열심히"),
    Adverb("well", "잘"),
)
TIMES = (
    Time("yesterday", "어제", ("past",)),
    Time("last night", "어젯밤에", ("past",)),
    Time("last week", "지난주에", ("past",)),
    Time("every day", "매일", ("habit",)),
    Time("every morning", "매일 아침", ("habit",)),
    Time("at weekends", "주말마다", ("habit",)),
    Time("now", "지금", ("ongoing",)),
    Time("today", "오늘", ("past", "ongoing", "future")),
    Time("tomorrow", "내일", ("future",)),
    Time("next week", "다음 주에", ("future",)),
    Time("tonight", "오늘 밤에", ("future",)),
    Time("in the morning", "아침에", ("past", "habit", "future")),
    Time("in the evening", "저녁에", ("past", "habit", "future")),
    Time("on Saturday", "토요일에", ("past", "future")),
)
VOCATIVES = (
    Vocative("Teacher", "선생님"),
    Vocative("Mother", "어머니"),
    Vocative("Father", "아버지"),
    Vocative("Grandmother", "할머니"),
    Vocative("Grandfather", "할아버지"),
    Vocative("Doctor", "의사 선생님", bars="doctor"),
    Vocative("Minji", "민지 씨", bars="Minji"),
    Vocative("Jihun", "지훈 씨", bars="Jihun"),
)
COORDINATING = (
    Connective("and", "고", subordinate=False, weight=3),
    Connective("but", "지만", subordinate=False, weight=2),
)
SUBORDINATING = (
    Connective("when", "을", "때", weight=3),
    Connective("because", "기", "때문에", weight=4),
    Connective("if", "으면", weight=3),
    Connective("after", "은", "후에", timeless=True, weight=2),
    Connective("before", "기", "전에", timeless=True, weight=2),
    Connective("while", "는", "동안", timeless=True, weight=2),
)
