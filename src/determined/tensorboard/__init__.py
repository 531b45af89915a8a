"""TensorBoard event files: their directory, and a writer for scalars."""
