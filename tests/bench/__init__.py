"""Costs, measured by runs that can be repeated: `make bench`. Ratios within one run; machines differ and are shared."""
