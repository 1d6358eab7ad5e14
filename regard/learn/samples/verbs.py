"""Verbs of the Korean–English grammar, each with the objects, places and adverbs that it can take."""

from __future__ import annotations

from dataclasses import dataclass

from regard.learn.samples.conjugation import Stem
from regard.learn.samples.lexicon import ADVERBS, PEOPLE, PLACES, THINGS, Adverb, Noun, by_name


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with what it can take. With a `goal` its place is where one goes (에), else where it happens (에서).

    `goal` and `recipient` are "always", "perhaps" or "never" present. A `stative` verb has no progressive, and
    one done `alone` no companion. The first object is its most typical one, which is never held out.
    """

    english: str
    past: str
    stem: Stem
    objects: tuple[Noun, ...] = ()
    places: tuple[Noun, ...] = ()
    adverbs: tuple[Adverb, ...] = ()
    preposition: str = ""
    goal: str = "never"
    recipient: str = "never"
    stative: bool = False
    alone: bool = False

    @property
    def personal(self) -> bool:
        """True if its objects are people."""
        return self.objects == PEOPLE


def verb(
    english: str,
    korean: str,
    objects: str | tuple[Noun, ...] = "",
    places: str = "",
    adverbs: str = "",
    goal: str = "never",
    recipient: str = "never",
    stative: bool = False,
    alone: bool = False,
) -> Verb:
    """Make an entry: "wait/waited for" has its past and preposition, "돕/ㅂ" its irregular class."""
    forms, _, preposition = english.partition(" ")
    base, _, past = forms.partition("/")
    stem, _, kind = korean.partition("/")
    return Verb(
        base,
        past or base,
        Stem(stem, kind or "regular"),
        by_name(THINGS + PLACES, objects) if isinstance(objects, str) else objects,
        by_name(PLACES, places),
        tuple(adverb for adverb in ADVERBS if adverb.english in adverbs.split()),
        preposition,
        goal,
        recipient,
        stative,
        alone,
    )


FOOD = "bread rice apple egg grapes meat fish noodles vegetables cake"
DRINK = "water milk coffee tea juice"
GOODS = "bag hat shoes clothes umbrella clock cup chair"
PRESENTS = "gift flowers book apple hat clock umbrella picture map"
LESSONS = "Korean English mathematics history piano guitar"
GOALS = (
    "home school library market park hospital station cafe restaurant office museum bookshop theatre shop sea lake "
    "post_office"
)

TRANSITIVE = (
    verb("eat/ate", "먹", FOOD, "home restaurant park kitchen cafe", "quickly slowly quietly"),
    verb("drink/drank", "마시", DRINK, "home cafe kitchen office restaurant", "quickly slowly quietly"),
    verb("read", "읽", "book newspaper letter novel poem story", "home library park cafe room", "slowly quietly"),
    verb("write/wrote", "쓰", "letter novel poem story", "home room library cafe classroom", "slowly carefully"),
    verb("buy/bought", "사", f"{FOOD} {GOODS} milk juice flowers gift", "market shop", "quickly"),
    verb("sell/sold", "팔", f"{GOODS} bread apple grapes meat fish flowers", "market shop", recipient="perhaps"),
    verb("make/made", "만들", "bread cake juice noodles chair box bag map", "home", "quickly slowly well"),
    verb("cook/cooked", "요리하/하", "meat fish noodles vegetables egg", "kitchen home restaurant", "quickly well"),
    verb("wash/washed", "씻", "apple grapes vegetables cup plate", "kitchen home", "quickly carefully"),
    verb("clean/cleaned", "청소하/하", "room kitchen classroom office shop", "", "quickly quietly"),
    verb("choose/chose", "고르/르", f"{GOODS} gift flowers cake", "shop market", "quickly slowly carefully"),
    verb("borrow/borrowed", "빌리", "book novel umbrella bag map", "library school"),
    verb("build/built", "짓/ㅅ", "house bridge", "", "quickly slowly carefully"),
    verb("open/opened", "열", "door window box gift", "", "quickly slowly quietly carefully"),
    verb("close/closed", "닫", "door window box", "", "quickly slowly quietly carefully"),
    verb("draw/drew", "그리", "picture map flowers house apple chair", "park room garden school", "slowly well"),
    verb("watch/watched", "보", "film television news", "home room", "quietly"),
    verb("listen/listened to", "듣/ㄷ", "music song story news radio", "home room cafe park", "quietly"),
    verb("sing/sang", "부르/르", "song", "park theatre school room", "quietly loudly happily well"),
    verb("play/played", "치", "piano guitar", "home room theatre school", "quietly happily well"),
    verb("study/studied", "공부하/하", "Korean English mathematics history", "school library home room cafe", "hard"),
    verb("learn/learned", "배우", LESSONS, "school home", "quickly hard"),
    verb("teach/taught", "가르치", LESSONS, "school home", "well", recipient="perhaps"),
    verb("give/gave", "주", PRESENTS, "school cafe station park home", recipient="always"),
    verb("send/sent", "보내", "letter gift flowers book picture map", "post_office", recipient="always"),
    verb("like/liked", "좋아하/하", f"{FOOD} {DRINK} {LESSONS} music flowers", stative=True, alone=True),
    verb("meet/met", "만나", PEOPLE, "school library market park station cafe restaurant museum theatre"),
    verb("wait/waited for", "기다리", PEOPLE, "station park cafe school hospital home", "quietly"),
    verb("help/helped", "돕/ㅂ", PEOPLE, "school hospital office market home", "hard"),
    verb("call/called", "부르/르", PEOPLE, "park classroom garden", "quietly loudly"),
)
INTRANSITIVE = (
    verb("sleep/slept", "자", "", "home room hospital library", "quietly deeply well", alone=True),
    verb("run/ran", "달리", "", "park garden school", "quickly slowly"),
    verb("walk/walked", "걷/ㄷ", "", "park garden", "quickly slowly quietly"),
    verb("work/worked", "일하/하", "", "office hospital shop restaurant library", "hard quietly"),
    verb("rest/rested", "쉬", "", "home park cafe garden room", "quietly well"),
    verb("laugh/laughed", "웃", "", "classroom park theatre home", "loudly quietly happily"),
    verb("cry/cried", "울", "", "room home hospital", "loudly quietly", alone=True),
    verb("dance/danced", "춤추", "", "park theatre room school", "happily slowly well"),
    verb("swim/swam", "수영하/하", "", "sea lake", "quickly slowly happily well"),
    verb("go/went", "가", "", GOALS, "quickly slowly", goal="always"),
    verb("come/came", "오", "", GOALS, "quickly slowly", goal="perhaps"),
    verb("return/returned", "돌아가", "", GOALS, "quickly slowly", goal="perhaps"),
)
VERBS = TRANSITIVE + INTRANSITIVE
