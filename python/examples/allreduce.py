#!/usr/bin/env python3
"""A sum over all ranks: the whole program, as docs/examples/allreduce.c has it in C. Without
PyTorch and NumPy.

    psring run -n 4 -- python3 allreduce.py
    docs/examples/run_ranks 4 python3 allreduce.py          # without psring's programs"""

import array

import psring

with psring.Communicator() as comm:
    x = array.array("f", [i + comm.world.rank for i in range(1000)])
    comm.world.all_reduce(x)
    if comm.world.rank == 0:
        print("%d ranks: the sum of x[1] is %g" % (comm.world.size, x[1]))
