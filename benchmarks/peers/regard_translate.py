"""Regard, through the engine of `regard translate`, with the rows and threads that it finds best."""

from __future__ import annotations

from collections.abc import Sequence

from peers.translating import END, Tokens, Translate, TranslationOptions, measure, start


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
    model_folder = load_folder(folder)
    engine = Engine(model_folder.model, options.engine, options.precision, folder)
    print(engine.describe())
    settings = SearchSettings(beam=options.beam, length_penalty=0.0)
    # If end of sentence is suppressed, the search adds it after the longest target, not before.
    suppressed = (PAD, UNK, BOS, EOS) if options.forced else (PAD, UNK, BOS)
    vocabularies = model_folder.tokenizer.source, model_folder.tokenizer.target
    source, target = (vocabulary.tokens(range(len(vocabulary))) for vocabulary in vocabularies)
    ids = {token: i for i, token in enumerate(source)}

    def longest(source: Sequence[int]) -> int:
        # The engine `auto` does not use CTranslate2 for sentences with a limit of their own, so they get none there.
        if options.engine == "native":
            return options.longest
        return settings.max_steps(len(source), model_folder.model.max_target)

    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        sources = [[*(ids.get(token, UNK) for token in sentence), EOS] for sentence in sentences]
        requests = [DecodeRequest(source, Task(name, longest(source))) for name, source in enumerate(sources)]
        end = [END] if options.forced else []
        results = engine.decode(requests, settings, (SuppressTokens(suppressed),))
        return [[*(target[i] for i in hypotheses[0].ids), *end] for hypotheses in results]

    return translate


if __name__ == "__main__":
    main()
