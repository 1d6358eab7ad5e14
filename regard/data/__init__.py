"""Data for training: parallel corpora and captioned images, tokenizers, and batches.

`prepare.prepare_data` passes data through the modules of this package in this order:

- Files (`text`) in one of the `file_formats` are read as `pairs` and filtered (`pair_filters`) into
  a `corpus`, or as `caption_files`; pairs stay in their files if they exceed memory. `holdout`
  takes pairs for validation.
- A `tokenizer` (`vocabulary`, `subword_sampling`) encodes them as `examples`, in memory or in
  `shards`.
- `bucketing` puts examples of similar length into batches, `batch_stream` and `mixture` yield the
  updates, and `batch` makes tensors.

Images pass through `images`, `image_cache` and `image_augmentation`. `provenance` compares the data
of a resumed run with those it began with.
"""
