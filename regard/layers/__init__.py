"""Building blocks of models, besides attention.

In the order in which data pass: `embedding` and `positions`; per layer `residual` (add & norm),
`feedforward`, `dropout`; recurrent networks (`cells` for one step, `rnn` for a sequence,
`deferred_linear` for their weights); `convolution` (gated, weight norm) and `resnet` (images); then
the output projection of `embedding`.
"""
