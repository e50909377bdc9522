"""Moves a library's SIMD kernels to another CPU and proves them equal to the originals.

The heart is the semantics table (`icml.tools.migrate.table`): what each intrinsic computes, said once.

    >>> from icml.tools.migrate import table
    >>> table.load("neon")["vqaddq_u8"].family
    'qadd'
"""
