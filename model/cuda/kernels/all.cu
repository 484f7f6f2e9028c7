/* All kernels as one text: for nvcc, and for the emulation. */
#include "model/cuda/kernels/arena.cu"
#include "model/cuda/kernels/bytes.cu"
#include "model/cuda/kernels/channels.cu"
#include "model/cuda/kernels/dropout.cu"
#include "model/cuda/kernels/elements.cu"
#include "model/cuda/kernels/loss.cu"
#include "model/cuda/kernels/matrix.cu"
#include "model/cuda/kernels/turn.cu"
