"""Successive halving: trials that are compared at rungs, where the best continue."""
