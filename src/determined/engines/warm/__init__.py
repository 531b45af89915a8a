"""The warm process: it has imported torch, and forks itself for each job."""
