"""Parts of storing a checkpoint: upload, shards, forked work, retention."""
