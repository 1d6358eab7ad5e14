"""C library of kernels and runtime, with a thin Python interface that needs no PyTorch."""
