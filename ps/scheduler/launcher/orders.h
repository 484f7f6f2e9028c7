/* The launcher's orders, and whether it lives: for the schedulers that it starts, training's and
 * psring run's. Orders that mean the same for both (pause, go on) are carried out here. Plain data;
 * one thread. */
#ifndef PSR_PS_ORDERS_H
#define PSR_PS_ORDERS_H

#include "base/clock.h"
#include "comm/launcher_line.h"
#include "ps/scheduler/launcher/launcher.h"

typedef struct psr_orders {
    psr_launcher *launcher; /* borrowed */
    int64_t deadline_ms;
    void *context;
    /* Called for LOST, LEFT, AGENT, LOG, CLOSED. */
    void (*obey)(void *context, const psr_order *order, int64_t now_ms);
    /* Called for STOP, or a signal that means it. */
    void (*stop)(void *context);
    void (*gone)(void *context, int64_t now_ms);
    /* Called for a line that is no order; the detail says why. */
    void (*bad)(void *context);
    /* psr_orders_begin sets the fields that follow. */
    /* the presence of this process, which waits for launcher and disk */
    psr_presence_clock presence;
    int64_t heard_ms; /* when the launcher was last heard, by that clock */
    int64_t say_alive_ms;
} psr_orders;

void psr_orders_begin(psr_orders *orders, int64_t now_ms);
/* Takes the orders that are there, up to a limit. true: there may be more. */
bool psr_orders_take(psr_orders *orders, int64_t now_ms);
/* How long the launcher has been silent, in milliseconds, without times in which this process did
 * not run. */
int64_t psr_orders_silent_ms(psr_orders *orders, int64_t now_ms);
/* Tells the launcher from time to time that the scheduler lives, and tries again to write what
 * waits. */
void psr_orders_say_alive(psr_orders *orders, int64_t now_ms);

#endif
