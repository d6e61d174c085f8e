"""The instrument's own validation: `make validation` (docs/validation.md)."""
