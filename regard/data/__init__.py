"""Data for training: parallel corpora and captioned images, tokenizers, and batches.

Data pass through this package in this order (`prepare.prepare_data` does it all): files (`text`,
`caption_files`) are read as pairs and filtered (`pairs`, `corpus`; `streaming` if they exceed
memory; `holdout` for validation); a `tokenizer` (`vocabulary`, `subword_sampling`) encodes them as
`examples` in memory or in `shards`; `bucketing` puts examples of similar length into batches;
`batch_stream` and `mixture` give the stream of updates; `batch` makes tensors. Images go through
`images`, `image_cache` and `augmentation`; `provenance` compares the data of a resumed run.
"""
