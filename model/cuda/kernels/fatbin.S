/* The kernels' bytes, as model/cuda/kernels/fatbin.h declares them. PSR_FATBIN: the file. */
    .section .rodata
    .balign 16
    .globl psr_cuda_kernels_fatbin
    .hidden psr_cuda_kernels_fatbin
psr_cuda_kernels_fatbin:
    .incbin PSR_FATBIN
.Lend:
    .balign 8
    .globl psr_cuda_kernels_fatbin_bytes
    .hidden psr_cuda_kernels_fatbin_bytes
psr_cuda_kernels_fatbin_bytes:
    .quad .Lend - psr_cuda_kernels_fatbin
    .section .note.GNU-stack, "", %progbits
