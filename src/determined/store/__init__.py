"""What runs leave behind as rows: experiments, trials, attempts, metrics, checkpoints, logs, requests."""
