/* Data parallelism that goes on with the ranks that live: weights of a linear model are fitted to
 * samples, of which each rank has its share. A rank may die at any time, by a signal or with its
 * machine, but for the one with the scheduler. The others find that out in the middle of a step,
 * make a group of themselves, agree on how far they are, share the samples anew and go on: the
 * losses are those of a run without deaths. To try it out, ranks can be told to die:
 *   cc survive.c -o survive $(pkg-config --cflags --libs psring) &&
 *     PSRING_DEADLINE_MS=5000 ./run_ranks 4 ./survive 100 2 30 3 60
 * trains for 100 steps; rank 2 is killed in step 30 and rank 3 in step 60. A death is found within
 * a second; a host that no longer answers, within three quarters of the deadline. */
#include <psring/psring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 2048, FEATURES = 16, RANKS_MAX = 1024, REPORT_EVERY = 20, DEATHS_MAX = 8 };
static const double RATE = 0.3;

typedef struct samples {
    double x[SAMPLES][FEATURES], y[SAMPLES];
} samples;

/* What all ranks have alike: of type double alone, so that it goes in one broadcast. */
typedef struct training {
    double step; /* that have been taken */
    double weights[FEATURES];
} training;
enum { STATE_VALUES = sizeof(training) / sizeof(double) };

typedef struct orders {
    int steps;
    int own_end; /* the step in which this rank dies; -1: it does not */
} orders;

/* The same on every rank: y is a sum of x with weights that are to be found, and a disturbance. */
static void make_samples(samples *all)
{
    uint64_t random = 1;
    for (int i = 0; i < SAMPLES; i++) {
        all->y[i] = 0;
        for (int f = 0; f < FEATURES; f++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            all->x[i][f] = (double)(random >> 40) / (1 << 23) - 1;
            all->y[i] += all->x[i][f] * (f - FEATURES / 2) + 0.01 * all->x[i][f] * all->x[i][0];
        }
    }
}

/* Of this rank's samples, summed. */
static void add_gradient(const samples *all, const psring_group *group,
                         const double weights[FEATURES], double ret_gradient[FEATURES],
                         double *ret_loss)
{
    memset(ret_gradient, 0, FEATURES * sizeof *ret_gradient);
    *ret_loss = 0;
    for (int i = psring_rank(group); i < SAMPLES; i += psring_size(group)) {
        double error = -all->y[i];
        for (int f = 0; f < FEATURES; f++)
            error += weights[f] * all->x[i][f];
        for (int f = 0; f < FEATURES; f++)
            ret_gradient[f] += error * all->x[i][f];
        *ret_loss += error * error / 2;
    }
}

/* A step that failed here may have been taken on another rank: all go on from the one that is
 * furthest. */
static psring_err catch_up(psring_group *group, training *state)
{
    double steps[RANKS_MAX];
    int furthest = 0;
    psring_err err = psring_all_gather(group, &state->step, steps, 1, PSRING_FLOAT64, NULL, NULL);
    if (err != PSRING_OK)
        return err;
    for (int r = 1; r < psring_size(group); r++)
        if (steps[r] > steps[furthest])
            furthest = r;
    err = psring_broadcast(group, state, STATE_VALUES, PSRING_FLOAT64, furthest, NULL, NULL);
    if (err == PSRING_OK && psring_rank(group) == 0)
        printf("ranks: %d, from step %g on\n", psring_size(group), state->step + 1);
    return err;
}

static psring_err take_step(psring_group *group, const samples *all, training *state)
{
    double sums[FEATURES + 1]; /* the loss is the last */
    add_gradient(all, group, state->weights, sums, &sums[FEATURES]);
    psring_err err =
        psring_all_reduce(group, sums, sums, FEATURES + 1, PSRING_FLOAT64, PSRING_SUM, NULL, NULL);
    if (err != PSRING_OK)
        return err; /* the state is that of before */
    for (int f = 0; f < FEATURES; f++)
        state->weights[f] -= RATE / SAMPLES * sums[f];
    state->step++;
    if (psring_rank(group) == 0 && (int)state->step % REPORT_EVERY == 0)
        printf("step: %g, loss is %.15g\n", state->step, sums[FEATURES] / SAMPLES);
    return PSRING_OK;
}

static psring_err train(psring_group *group, const samples *all, const orders *plan,
                        training *state)
{
    psring_err err = catch_up(group, state);
    while (err == PSRING_OK && state->step < plan->steps) {
        if ((int)state->step + 1 == plan->own_end)
            raise(SIGKILL);
        err = take_step(group, all, state);
    }
    /* nobody leaves whom others need */
    return err == PSRING_OK ? psring_barrier(group, NULL, NULL) : err;
}

/* PEER: a rank is lost. Or this one is, to the others: then it cannot shrink either, and that is
 * the end. */
static psring_err train_with_who_lives(psring_group *group, const samples *all, const orders *plan)
{
    training state = {0};
    psring_err err = train(group, all, plan, &state);
    while (err == PSRING_ERR_PEER) {
        err = psring_shrink(group, NULL, &group); /* the broken one ends with the communicator */
        if (err != PSRING_OK)
            return err;
        err = train(group, all, plan, &state);
    }
    return err;
}

/* "STEPS [RANK STEP]..". false: it is something else. */
static bool read_plan(int argc, char **argv, int rank, orders *ret_plan)
{
    *ret_plan = (orders){.steps = argc > 1 ? atoi(argv[1]) : 0, .own_end = -1};
    for (int i = 2; i + 1 < argc; i += 2)
        if (atoi(argv[i]) == rank)
            ret_plan->own_end = atoi(argv[i + 1]);
    return ret_plan->steps > 0 && argc % 2 == 0;
}

int main(int argc, char **argv)
{
    static samples all;
    orders plan;
    psring_comm *comm = NULL;
    psring_err err = psring_init(NULL, &comm);
    if (err == PSRING_OK && !read_plan(argc, argv, psring_rank(psring_world(comm)), &plan)) {
        psring_abort(&comm, "survive STEPS [RANK STEP].. is what it takes");
        fprintf(stderr, "survive STEPS [RANK STEP]..\n");
        return 2;
    }
    make_samples(&all);
    if (err == PSRING_OK)
        err = train_with_who_lives(psring_world(comm), &all, &plan);
    if (err == PSRING_OK)
        err = psring_close(&comm);
    if (err != PSRING_OK) {
        fprintf(stderr, "%s: %s\n", psring_err_name(err), psring_err_detail());
        psring_abort(&comm, psring_err_detail());
    }
    return err != PSRING_OK;
}
