"""Building blocks of models, besides attention.

- `embedding`: token embedding and output projection; `positional_encoding`: positions;
  `input_embedding`: their sum.
- `residual` (add & norm), `feedforward` and `dropout`: parts of a Transformer layer.
- `cells` (one step), `rnn` (a sequence) and `deferred_linear` (weights in a loop): recurrent
  networks.
- `convolution`: gated convolutions with weight norm.
- `resnet`: ResNet backbone for images.
- `module_list`: lists of modules of one class.
"""
