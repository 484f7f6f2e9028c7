/* An MPI library's all-reduces of float32, timed as psring-bench-comm does: each call behind a
 * barrier, its time that of its slowest rank. usage: mpi_all_reduce ITERATIONS WARMUP BYTES...
 * Prints one JSON object. psring bench exchange and bench/comm_beside_peers compile it with
 * mpicc. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(int rank, int ranks, int count, int iterations, int warmup, double *seconds,
                    double *slowest)
{
    float *own = malloc((size_t)count * sizeof *own), *sum = malloc((size_t)count * sizeof *sum);
    if (own == NULL || sum == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < count; i++)
        own[i] = (float)(rank + 1);
    for (int call = -warmup; call < iterations; call++) {
        for (int i = 0; i < count; i++)
            sum[i] = -1;
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        MPI_Allreduce(own, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        const double end = MPI_Wtime();
        for (int i = 0; i < count; i++)
            if (sum[i] != (float)(ranks * (ranks + 1) / 2))
                MPI_Abort(MPI_COMM_WORLD, 2);
        if (call >= 0)
            seconds[call] = end - begin;
    }
    MPI_Allreduce(seconds, slowest, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(slowest, (size_t)iterations, sizeof *slowest, compare);
    free(own);
    free(sum);
}

int main(int argc, char **argv)
{
    int rank, ranks, length;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(library, &length);
    const int iterations = argc > 3 ? atoi(argv[1]) : 0, warmup = argc > 3 ? atoi(argv[2]) : 0;
    double *seconds = calloc((size_t)iterations + 1, sizeof *seconds),
           *slowest = calloc((size_t)iterations + 1, sizeof *slowest);
    if (iterations < 1 || warmup < 0 || seconds == NULL || slowest == NULL) {
        fprintf(stderr, "usage: mpi_all_reduce ITERATIONS WARMUP BYTES...\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("{\"peer\": \"%.15s\", \"ranks\": %d, \"rows\": [", library, ranks);
    for (int k = 3; k < argc; k++) {
        const int bytes = atoi(argv[k]), count = bytes > 4 ? bytes / 4 : 1;
        measure(rank, ranks, count, iterations, warmup, seconds, slowest);
        if (rank == 0)
            printf("%s{\"size_bytes\": %d, \"time_us\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f}",
                   k > 3 ? ", " : "", bytes,
                   (slowest[(iterations - 1) / 2] + slowest[iterations / 2]) / 2 * 1e6,
                   slowest[0] * 1e6, slowest[iterations - 1] * 1e6);
    }
    if (rank == 0)
        printf("]}\n");
    free(seconds);
    free(slowest);
    MPI_Finalize();
    return 0;
}
