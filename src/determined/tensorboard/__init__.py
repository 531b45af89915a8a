"""TensorBoard files: where they lie and how scalars get into them."""
