"""All compiled code: arrays in, arrays out, no domain types.

A compiled function calls only compiled functions of its own file: numba's cache does not notice
that a callee in another file has changed.
"""
