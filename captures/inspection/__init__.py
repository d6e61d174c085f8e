"""All results of one transfer from its two captures: traces over time, tables, and everything else put together.

Each part belongs to another folder, results from one capture alone to `captures.accounting`, drawing to `reports`.
"""
