"""Regard, by the engine that `regard translate` uses, with as many rows and threads as that finds best."""

from __future__ import annotations

from collections.abc import Sequence

from peers.translating import END, Pieces, Translate, TranslationOptions, measure, start


def main() -> None:
    """Measure one precision."""
    options = start("regard_translate")
    import torch

    torch.set_num_threads(options.threads)
    measure(options, _translator(options))


def _translator(options: TranslationOptions) -> Translate:
    from regard.data.vocabulary import BOS, EOS, PAD, UNK
    from regard.engine import DecodeRequest, Engine
    from regard.model_folder import load_folder
    from regard.search import SearchSettings, SuppressTokens, Task

    folder = options.folder / "regard"
    found = load_folder(folder)
    engine = Engine(found.model, options.engine, options.precision, folder)
    print(engine.describe())
    settings = SearchSettings(beam=options.beam, length_penalty=0.0)
    # Where the end is forbidden, it is written with the last piece that a target may have and not before.
    never = (PAD, UNK, BOS, EOS) if options.forced else (PAD, UNK, BOS)
    sides = found.tokenizer.source, found.tokenizer.target
    source, target = (side.tokens(range(len(side))) for side in sides)
    ids = {piece: i for i, piece in enumerate(source)}

    def longest(source: Sequence[int]) -> int:
        # CTranslate2 is not taken for sentences of which anything is asked, so nothing is where it may be.
        return (
            options.longest if options.engine == "native" else settings.max_steps(len(source), found.model.max_target)
        )

    def translate(sentences: Sequence[Pieces]) -> list[Pieces]:
        sources = [[*(ids.get(piece, UNK) for piece in sentence), EOS] for sentence in sentences]
        jobs = [DecodeRequest(source, Task(name, longest(source))) for name, source in enumerate(sources)]
        end = [END] if options.forced else []
        results = engine.decode(jobs, settings, (SuppressTokens(never),))
        return [[*(target[i] for i in hypotheses[0].ids), *end] for hypotheses in results]

    return translate


if __name__ == "__main__":
    main()
