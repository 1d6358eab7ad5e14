"""Regard, through the engine of `regard translate`."""

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
    from regard.data.vocabulary import EOS, UNK
    from regard.model_folder import load_folder
    from regard.runtime.engine import DecodeRequest, Engine
    from regard.search import SearchSettings, Task

    model_folder = load_folder(options.folder / "regard")
    engine = Engine(model_folder.model, options.precision, model_folder)
    most = options.longest - 1
    print(engine.describe())
    lengths = {
        "min_length": most if options.forced else 0,
        "max_length": most,
        "max_extra": options.longest,
    }
    settings = SearchSettings(beam=options.beam, length_penalty=0.0, **lengths)
    vocabularies = model_folder.tokenizer.source, model_folder.tokenizer.target
    source, target = (
        vocabulary.tokens(range(len(vocabulary))) for vocabulary in vocabularies
    )
    ids = {token: i for i, token in enumerate(source)}

    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        sources = [
            [*(ids.get(token, UNK) for token in sentence), EOS]
            for sentence in sentences
        ]
        byte_tokens = model_folder.tokenizer.target.byte_tokens
        tasks = [
            Task(name, options.longest, byte_tokens=byte_tokens)
            for name in range(len(sources))
        ]
        requests = [DecodeRequest(*item) for item in zip(sources, tasks, strict=True)]
        end = [END] if options.forced else []
        results = engine.decode(requests, settings)
        return [
            [*(target[i] for i in hypotheses[0].ids), *end] for hypotheses in results
        ]

    return translate


if __name__ == "__main__":
    main()
