#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

#include "sim/sim_event.h"

/* ---- helpers: events that write their letter ----------------------------- */

typedef struct note {
    sim_event_t event;
    char letter;
    sim_event_t *then; /* scheduled by the handler, `delay` ticks later */
    sim_tick_t delay;
    sim_event_t *cancel; /* cancelled by the handler */
} note_t;

static char written[64];
static size_t written_count;

static void write_letter(sim_engine_t *engine, sim_event_t *event) {
    note_t *note = SIM_CONTAINER_OF(event, note_t, event);
    written[written_count++] = note->letter;
    written[written_count] = '\0';
    if (note->cancel != NULL) sim_event_cancel(engine, note->cancel);
    if (note->then != NULL) sim_event_schedule(engine, note->then, sim_now(engine) + note->delay);
}

static note_t note_of(char letter, sim_phase_t phase) {
    note_t note = {.letter = letter};
    sim_event_init(&note.event, phase, write_letter);
    return note;
}

static sim_engine_t *new_engine(void) {
    sim_engine_t *engine;
    cr_assert_eq(sim_engine_create(&engine), SIM_OK);
    written_count = 0;
    written[0] = '\0';
    return engine;
}

static void expect(const char *letters) {
    cr_assert_str_eq(written, letters);
    written_count = 0;
    written[0] = '\0';
}

/* ---- order --------------------------------------------------------------- */

Test(event, phases_of_one_tick_run_in_order) {
    sim_engine_t *engine = new_engine();
    note_t o = note_of('o', SIM_PHASE_OBSERVE), i = note_of('i', SIM_PHASE_ISSUE);
    note_t a = note_of('a', SIM_PHASE_ARRIVE), c = note_of('c', SIM_PHASE_COMPLETE);
    note_t late = note_of('l', SIM_PHASE_ISSUE);
    c.then = &late.event; /* same tick, a later phase: behind what waits there already */
    sim_event_schedule(engine, &o.event, 7);
    sim_event_schedule(engine, &i.event, 7);
    sim_event_schedule(engine, &a.event, 7);
    sim_event_schedule(engine, &c.event, 7);
    cr_assert_eq(sim_engine_run(engine), 7);
    expect("cailo");
    cr_assert_eq(sim_engine_dispatched(engine), 5);
    sim_engine_destroy(engine);
}

Test(event, equal_keys_are_first_in_first_out) {
    sim_engine_t *engine = new_engine();
    for (sim_tick_t tick = 3; tick < 100000; tick *= 7) { /* wheel and heap */
        note_t note[20];
        for (int n = 0; n < 20; n++) {
            note[n] = note_of((char)('a' + n), SIM_PHASE_ISSUE);
            sim_event_schedule(engine, &note[n].event, sim_now(engine) + tick);
        }
        (void)sim_engine_run(engine);
        expect("abcdefghijklmnopqrst");
    }
    sim_engine_destroy(engine);
}

/* 'a' goes to the heap from tick 0; 'b' is scheduled later for the same tick, straight into the
 * wheel. */
Test(event, heap_events_stay_ahead_of_younger_wheel_events) {
    for (sim_tick_t step = 4095; step >= 4088; step--) {
        sim_engine_t *engine = new_engine();
        note_t a = note_of('a', SIM_PHASE_ARRIVE), b = note_of('b', SIM_PHASE_ARRIVE);
        note_t hop = note_of('h', SIM_PHASE_OBSERVE), first = note_of('f', SIM_PHASE_COMPLETE);
        hop.then = &b.event;
        hop.delay = step;
        sim_event_schedule(engine, &a.event, 5000);
        sim_event_schedule(engine, &hop.event,
                           5000 - step); /* the tick at which 'a' comes within reach, or later */
        sim_event_schedule(engine, &first.event, 5000);
        cr_assert_eq(sim_engine_run(engine), 5000);
        expect("hfab");
        sim_engine_destroy(engine);
    }
}

Test(event, the_edge_of_the_wheel_keeps_order) {
    sim_engine_t *engine = new_engine();
    static const sim_tick_t TICKS[] = {4097, 4096, 4095, 8193, 8192, 8191, 0, 1, 12288, 63, 64, 65};
    note_t note[12];
    for (int n = 0; n < 12; n++) {
        note[n] = note_of((char)('a' + n), SIM_PHASE_ISSUE);
        sim_event_schedule(engine, &note[n].event, TICKS[n]);
    }
    cr_assert_eq(sim_engine_run(engine), 12288);
    expect("ghjklcbafedi");
    sim_engine_destroy(engine);
}

/* ---- cancel -------------------------------------------------------------- */

Test(event, cancel_in_wheel_and_heap) {
    for (sim_tick_t tick = 10; tick < 20000; tick += 9990) {
        for (unsigned gone = 0; gone < 32; gone++) { /* every subset of five events of one tick */
            sim_engine_t *engine = new_engine();
            note_t note[5];
            char left[6] = "";
            size_t count = 0;
            for (unsigned n = 0; n < 5; n++) {
                note[n] = note_of((char)('a' + n), SIM_PHASE_ISSUE);
                sim_event_schedule(engine, &note[n].event, tick);
            }
            for (unsigned n = 0; n < 5; n++) {
                if ((gone >> n & 1u) != 0)
                    sim_event_cancel(engine, &note[n].event);
                else
                    left[count++] = (char)('a' + n);
                cr_assert_eq(sim_event_is_pending(&note[n].event), (gone >> n & 1u) == 0);
            }
            cr_assert_eq(sim_engine_run(engine), gone == 31 ? 0 : tick);
            expect(left);
            sim_engine_destroy(engine);
        }
    }
}

Test(event, cancelling_an_idle_event_does_nothing) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE);
    sim_event_cancel(engine, &a.event);
    sim_event_schedule(engine, &a.event, 1);
    sim_event_cancel(engine, &a.event);
    sim_event_cancel(engine, &a.event);
    cr_assert_eq(sim_engine_run(engine), 0);
    expect("");
    sim_engine_destroy(engine);
}

Test(event, a_handler_may_cancel_within_its_tick) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE), b = note_of('b', SIM_PHASE_ISSUE);
    note_t c = note_of('c', SIM_PHASE_ISSUE), d = note_of('d', SIM_PHASE_OBSERVE);
    a.cancel = &b.event;
    c.cancel = &d.event;
    sim_event_schedule(engine, &a.event, 4);
    sim_event_schedule(engine, &b.event, 4);
    sim_event_schedule(engine, &c.event, 4);
    sim_event_schedule(engine, &d.event, 4);
    (void)sim_engine_run(engine);
    expect("ac");
    sim_engine_destroy(engine);
}

Test(event, a_cancelled_event_goes_behind_when_scheduled_again) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE), b = note_of('b', SIM_PHASE_ISSUE);
    sim_event_schedule(engine, &a.event, 4);
    sim_event_schedule(engine, &b.event, 4);
    sim_event_cancel(engine, &a.event);
    sim_event_schedule(engine, &a.event, 4);
    (void)sim_engine_run(engine);
    expect("ba");
    sim_engine_destroy(engine);
}

/* ---- running ------------------------------------------------------------- */

Test(event, run_until_stops_at_the_limit) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE), b = note_of('b', SIM_PHASE_ISSUE);
    sim_event_schedule(engine, &a.event, 100);
    sim_event_schedule(engine, &b.event, 9000);
    cr_assert(sim_engine_run_until(engine, 99));
    expect("");
    cr_assert_eq(sim_now(engine), 99);
    cr_assert(sim_engine_run_until(engine, 100));
    expect("a");
    cr_assert(sim_engine_run_until(engine, 8999));
    cr_assert_eq(sim_now(engine), 8999);
    expect("");
    cr_assert_not(sim_engine_run_until(engine, 20000));
    expect("b");
    cr_assert_eq(sim_now(engine), 9000); /* no event left: the time of the last one */
    cr_assert_eq(sim_engine_run(engine), 0);
    sim_engine_destroy(engine);
}

/* Moving `now` to a limit brings far events within reach: those scheduled afterwards must stay
 * behind them. */
Test(event, run_until_keeps_first_in_first_out) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE), b = note_of('b', SIM_PHASE_ISSUE),
           c = note_of('c', SIM_PHASE_COMPLETE);
    sim_event_schedule(engine, &a.event, 10000);
    cr_assert(sim_engine_run_until(engine, 9000));
    sim_event_schedule(engine, &b.event, 10000);
    sim_event_schedule(engine, &c.event, 9000); /* now, any phase: no handler runs */
    cr_assert_eq(sim_engine_run(engine), 10000);
    expect("cab");
    sim_engine_destroy(engine);
}

Test(event, reset_forgets_and_starts_again) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE), b = note_of('b', SIM_PHASE_OBSERVE),
           c = note_of('c', SIM_PHASE_ISSUE);
    sim_event_schedule(engine, &a.event, 1000);
    (void)sim_engine_run(engine);
    expect("a");
    sim_event_schedule(engine, &a.event, 1000);
    sim_event_schedule(engine, &b.event, 1000);
    sim_event_schedule(engine, &c.event, 100000);
    sim_engine_reset(engine);
    cr_assert_eq(sim_now(engine), 0);
    cr_assert_not(sim_event_is_pending(&a.event));
    cr_assert_not(sim_event_is_pending(&b.event));
    cr_assert_not(sim_event_is_pending(&c.event));
    cr_assert_eq(sim_engine_run(engine), 0);
    sim_event_schedule(engine, &c.event, 2);
    sim_event_schedule(engine, &a.event, 1);
    cr_assert_eq(sim_engine_run(engine), 2);
    expect("ac");
    cr_assert_eq(sim_engine_dispatched(engine), 3);
    sim_engine_destroy(engine);
}

static void check_phase(sim_engine_t *engine, sim_event_t *event) {
    cr_assert_eq(sim_now_phase(engine), event->phase);
    cr_assert_eq(sim_now(engine), event->tick);
    cr_assert_not(sim_event_is_pending(event));
}

Test(event, the_handler_sees_tick_and_phase) {
    sim_engine_t *engine = new_engine();
    sim_event_t event[SIM_PHASE_COUNT];
    for (int phase = 0; phase < SIM_PHASE_COUNT; phase++) {
        sim_event_init(&event[phase], (sim_phase_t)phase, check_phase);
        sim_event_schedule(engine, &event[phase], 12);
    }
    cr_assert_eq(sim_engine_run(engine), 12);
    cr_assert_eq(sim_engine_dispatched(engine), SIM_PHASE_COUNT);
    sim_engine_destroy(engine);
}

/* ---- simulator bugs abort ------------------------------------------------ */

Test(event, twice_aborts, .signal = SIGABRT) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE);
    sim_event_schedule(engine, &a.event, 1);
    sim_event_schedule(engine, &a.event, 1);
}

Test(event, the_past_aborts, .signal = SIGABRT) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE);
    sim_event_schedule(engine, &a.event, 5);
    (void)sim_engine_run(engine);
    sim_event_schedule(engine, &a.event, 4);
}

Test(event, an_earlier_phase_of_this_tick_aborts, .signal = SIGABRT) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE), b = note_of('b', SIM_PHASE_ARRIVE);
    a.then = &b.event;
    sim_event_schedule(engine, &a.event, 5);
    (void)sim_engine_run(engine);
}

Test(event, never_aborts, .signal = SIGABRT) {
    sim_engine_t *engine = new_engine();
    note_t a = note_of('a', SIM_PHASE_ISSUE);
    sim_event_schedule(engine, &a.event, SIM_TICK_NEVER);
}
