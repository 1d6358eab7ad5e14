"""C library of kernels and runtime, and its thin Python; nothing here needs PyTorch."""
