"""All compiled code: arrays in, arrays out, no domain types.

Arguments come in named groups, and so do results; those that several kernels share are in
`ucfh._kernels.groups`. Numba's cache does not notice that what a function has from another file
has changed; `ucfh._kernels.compiling` does, if it is imported by its name from a file of this
package.
"""
