/* What the launcher orders, and whether it lives: for the schedulers that it starts, training's and
 * psring run's. Orders that are alike for both (pause, go on) are obeyed here. Plain data; one
 * thread. */
#ifndef PSR_PS_ORDERS_H
#define PSR_PS_ORDERS_H

#include "base/clock.h"
#include "ps/scheduler/launcher.h"

typedef struct psr_orders {
    psr_launcher *launcher; /* borrowed */
    int64_t deadline_ms;
    void *context;
    /* LOST, LEFT, AGENT, LOG, CLOSED. */
    void (*obey)(void *context, const psr_order *order, int64_t now_ms);
    /* STOP, or a signal that says so. */
    void (*stop)(void *context);
    void (*gone)(void *context, int64_t now_ms);
    /* A line that is no order, as the detail says. */
    void (*bad)(void *context);
    /* What follows is psr_orders_begin's to set. */
    psr_presence_clock presence; /* of this process, which waits for launcher and disk */
    int64_t heard_ms;            /* by that clock */
    int64_t say_alive_ms;
} psr_orders;

void psr_orders_begin(psr_orders *orders, int64_t now_ms);
/* Those that are there, up to a burst. true: there may be more. */
bool psr_orders_take(psr_orders *orders, int64_t now_ms);
/* How long the launcher has been silent, less the times in which this process did not run. */
int64_t psr_orders_silent_ms(psr_orders *orders, int64_t now_ms);
/* Tells it now and then that the scheduler lives; what waits to be written to it is tried again. */
void psr_orders_say_alive(psr_orders *orders, int64_t now_ms);

#endif
