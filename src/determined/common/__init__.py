"""The part of Determined's `determined.common` that programs use: the SDK under old module names, and its errors."""
