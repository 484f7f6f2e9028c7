#include "ps/scheduler/launcher/orders.h"

#include "comm/members/scheduler_loop.h"

#define ALIVE_MS 1000

void psr_orders_begin(psr_orders *orders, int64_t now_ms)
{
    orders->say_alive_ms = now_ms;
    orders->presence = psr_presence_clock_for(now_ms, orders->deadline_ms);
    orders->heard_ms = psr_presence_clock_ms(&orders->presence, now_ms);
}

static void obey(psr_orders *orders, const psr_order *order, int64_t now_ms)
{
    switch (order->kind) {
    case PSR_ORDER_STOP:
        orders->stop(orders->context);
        return;
    case PSR_ORDER_PAUSE:
        psr_clock_stop();
        psr_launcher_paused(orders->launcher);
        return;
    case PSR_ORDER_GO_ON:
        psr_clock_go_on();
        return;
    case PSR_ORDER_ALIVE:
        return;
    default:
        orders->obey(orders->context, order, now_ms);
    }
}

bool psr_orders_take(psr_orders *orders, int64_t now_ms)
{
    for (int i = 0; i < PSR_SCHEDULER_BURST; i++) {
        psr_order order;
        const psr_launcher_heard heard = psr_launcher_take(orders->launcher, &order);
        if (heard == PSR_LAUNCHER_NOTHING)
            return false;
        orders->heard_ms = psr_presence_clock_ms(&orders->presence, now_ms);
        if (heard == PSR_LAUNCHER_ORDER) {
            obey(orders, &order, now_ms);
        } else if (heard == PSR_LAUNCHER_INTERRUPT) {
            orders->stop(orders->context);
        } else if (heard == PSR_LAUNCHER_BAD) {
            orders->bad(orders->context);
        } else {
            psr_clock_go_on(); /* the agent may have died while all processes were stopped */
            orders->gone(orders->context, now_ms);
        }
    }
    return true;
}

int64_t psr_orders_silent_ms(psr_orders *orders, int64_t now_ms)
{
    return psr_presence_clock_ms(&orders->presence, now_ms) - orders->heard_ms;
}

void psr_orders_say_alive(psr_orders *orders, int64_t now_ms)
{
    const int64_t every_ms =
        orders->deadline_ms / 4 < ALIVE_MS ? orders->deadline_ms / 4 : ALIVE_MS;
    if (now_ms < orders->say_alive_ms)
        return;
    orders->say_alive_ms = now_ms + every_ms;
    psr_launcher_alive(orders->launcher);
    psr_launcher_flush(orders->launcher);
}
