"""The part of Determined's `determined.common` that programs use: the SDK under its old place, and its errors."""
