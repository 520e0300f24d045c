/*
 * The queue: hand-offs, messages that may be lost, waiters that die or give up.
 *
 * Here a call of the script takes no time and is always answered: copies and lost
 * replies are lease.pml's. What remains is who wakes whom. A deadline is only
 * something that passes sooner or later; so "is granted" means "at last", and L1
 * alone is a matter of the very same step.
 *
 * There are clients of weight 1, 2, 1, ... and a limit of 2, so that one that
 * does not fit may stand before one that does.
 *
 * Promises, by the numbers of docs/guarantees.md:
 *
 *   S1  the weights of leases never exceed the limit
 *   S4  nobody is granted while somebody waits who came earlier
 *   L1  no call ends while the first in the queue would fit
 *   live  every waiter that neither dies nor gives up is granted and learns of it:
 *       L2 when a holder dies, L3 when waiters before it die, L4 when messages are lost
 *
 * Each macro takes something away. Alone, or with the others that would cover for
 * it, it must fail:
 *
 *   -DNO_POLL              waiters do not heartbeat and have no timer: they trust
 *                          messages
 *   -DSUBSCRIBE_AFTER_TRY  a client listens only when it knows that it has to wait
 *   -DNO_REAP_OF_DEAD_WAITERS  a place in the queue has no deadline, nor has what
 *                          is handed off to it
 *   -DNO_PUMP_ON_RELEASE   a release looks after nobody; other calls do
 *   -DNO_PUMP_ON_CANCEL    nor does one that gives its place up
 *   -DBARGING              newcomers that fit need not wait
 *
 * and these make the world kinder, to show that what is left then suffices:
 *
 *   -DNO_LOSS  messages to those who listen arrive     -DNO_DEATH  nobody dies
 *   -DNO_STALL  no live client is so slow as to miss its deadline
 */

#define CLIENTS 3
#define LIMIT   2
#define WEIGHT(c) (1 + c % 2)
#define NAME(c) ('A' + c)

mtype = { idle, asking, waiting, holding, finished, dead };

/* The server. */
chan queue = [CLIENTS] of { byte };
byte used;
bool lease[CLIENTS];
bool overdue[CLIENTS];   /* its deadline has passed; the next call reaps it */
#ifdef NO_REAP_OF_DEAD_WAITERS
bool endless[CLIENTS];   /* it has no deadline */
#define DEADLINE(c) (!endless[c])
#else
#define DEADLINE(c) true
#endif

/* The clients. */
mtype state[CLIENTS];
bool listens[CLIENTS];
bool message[CLIENTS];   /* "granted" has arrived */

bool stalled;            /* one live client has missed its deadline */
byte deaths;
#ifndef DEATHS
#define DEATHS 1
#endif

byte head, n;            /* scratch, 0 between steps */

#define QUEUED(c) (queue??[eval(c)])
#define KNOWN(c)  (lease[c] || QUEUED(c))

#define OVERSTAYS(c) (state[c] == dead && KNOWN(c) && DEADLINE(c) && !overdue[c])

/* Waiting for ever is the one thing that must not happen. */
#define WAITS(c) (state[c] == waiting || state[c] == asking)
#ifdef LIVE
ltl live { []<> !WAITS(0) && []<> !WAITS(1) && []<> !WAITS(2) }
#endif

/* ---- the script: reap, one operation, pump ---- */

inline leave(c) {
	if
	:: lease[c] -> lease[c] = false; used = used - WEIGHT(c)
	:: !lease[c] && QUEUED(c) -> queue??eval(c)
	:: else
	fi;
	overdue[c] = false
}

inline reap() {
	for (n : 0 .. CLIENTS-1) {
		if
		:: overdue[n] -> leave(n); printf("server: %c has run out, reaped\n", NAME(n))
		:: else
		fi
	}
	n = 0
}

inline grant(c) {
	lease[c] = true;
	used = used + WEIGHT(c);
	assert(used <= LIMIT) /* S1 */
}

/* The grant is written for the waiter, which keeps its deadline; then it is told. */
inline pump() {
	do
	:: nempty(queue) ->
	   queue?<head>;
	   if
	   :: used + WEIGHT(head) <= LIMIT ->
	      queue?head;
	      grant(head);
	      if
	      :: listens[head] -> message[head] = true; printf("server: hands off to %c\n", NAME(head))
#ifndef NO_LOSS
	      :: listens[head] -> printf("server: hands off to %c, the message is lost\n", NAME(head))
#endif
	      :: !listens[head] -> printf("server: hands off to %c, nobody hears it\n", NAME(head))
	      fi
	   :: else -> break
	   fi
	:: empty(queue) -> break
	od;
	head = 0;
	looked()
}

inline looked() {
	if
	:: nempty(queue) ->
	   queue?<head>;
	   assert(used + WEIGHT(head) > LIMIT); /* L1 */
	   head = 0
	:: empty(queue)
	fi
}

#ifdef BARGING
#define MAY_TAKE(c) (used + WEIGHT(c) <= LIMIT)
#else
#define MAY_TAKE(c) (len(queue) == 0 && used + WEIGHT(c) <= LIMIT)
#endif

inline acquire(c) {
	reap();
	if
	:: MAY_TAKE(c) ->
	   assert(len(queue) == 0); /* S4 */
	   grant(c);
	   state[c] = holding;
	   printf("%c: acquires and has it; %d of %d used\n", NAME(c), used, LIMIT)
	:: !MAY_TAKE(c) ->
	   queue!c;
	   state[c] = waiting;
#ifdef NO_REAP_OF_DEAD_WAITERS
	   endless[c] = true;
#endif
	   printf("%c: acquires and is queued\n", NAME(c))
	fi;
	pump()
}

inline has(c) {
	state[c] = holding;
#ifdef NO_REAP_OF_DEAD_WAITERS
	endless[c] = false; /* renewed: from now on it has a deadline of its own */
#endif
	printf("%c: has it; %d of %d used\n", NAME(c), used, LIMIT)
}

inline again(c) {
	state[c] = asking;
	message[c] = false; /* it was about an id that is past */
	printf("%c: is not known any more, asks again\n", NAME(c))
}

/* The heartbeat, or the timer for the nearest expiry: they are one operation. Its
 * answer is made before the pump. */
inline poll(c) {
	printf("%c: polls\n", NAME(c));
	reap();
	if
	:: lease[c] -> has(c); message[c] = false
	:: !lease[c] && QUEUED(c)
	:: !lease[c] && !QUEUED(c) -> again(c)
	fi;
	pump()
}

/* What a message tells may be past. For how long it is believed is message.pml's
 * matter; here the next renewal, which finds out, is the same step. */
inline hear(c) {
	message[c] = false;
	printf("%c: hears of its grant\n", NAME(c));
	reap();
	if
	:: lease[c] -> has(c)
	:: else -> again(c)
	fi;
	pump()
}

inline release(c) {
	printf("%c: releases\n", NAME(c));
	reap();
	leave(c);
#ifdef NO_PUMP_ON_RELEASE
	looked()
#else
	pump()
#endif
}

/* Also given back: what was granted while it gave up. */
inline cancel(c) {
	printf("%c: gives up\n", NAME(c));
	reap();
	leave(c);
	message[c] = false;
#ifdef NO_PUMP_ON_CANCEL
	looked()
#else
	pump()
#endif
}

/* ---- the client ---- */

proctype Client(byte c) {
#ifndef SUBSCRIBE_AFTER_TRY
	/* Before the first try: a hand-off that follows it cannot be missed. */
	listens[c] = true;
#endif
	end: do
	:: state[c] == idle -> state[c] = asking
	:: state[c] == idle -> state[c] = finished /* nobody is bound to come by again */
	:: atomic { state[c] == asking -> acquire(c) }
#ifdef SUBSCRIBE_AFTER_TRY
	:: state[c] == waiting && !listens[c] -> listens[c] = true
#endif
	:: atomic { state[c] == waiting && message[c] -> hear(c) }
#ifndef NO_POLL
	:: atomic { state[c] == waiting -> poll(c) }
#endif
	:: atomic { state[c] == holding -> release(c); state[c] = idle }
	od
}

/* What may happen to a client and need not: a fair run may do nothing for ever. */
proctype World() {
	byte c;

	do
	:: atomic {
		if
		:: true
		:: c = 1
		:: c = 2
		fi;
		if
		:: true
		:: state[c] == waiting -> cancel(c); state[c] = idle
#ifndef NO_DEATH
		:: (state[c] == waiting || state[c] == holding) && deaths < DEATHS ->
		   deaths++;
		   state[c] = dead;
		   printf("%c: dies\n", NAME(c))
#endif
#ifndef NO_STALL
		:: state[c] == waiting && KNOWN(c) && !overdue[c] && !stalled ->
		   stalled = true;
		   overdue[c] = true;
		   printf("        %c is slow, its deadline passes\n", NAME(c))
#endif
		fi;
		c = 0
	   }
	od
}

/* The deadline of what the server has for a dead client passes, sooner or later. */
proctype Clock() {
	byte c;

	end: do
	:: atomic {
		OVERSTAYS(0) || OVERSTAYS(1) || OVERSTAYS(2) ->
		do
		:: OVERSTAYS(c) -> break
		:: !OVERSTAYS(c) -> c++
		od;
		overdue[c] = true;
		printf("        the deadline of %c passes\n", NAME(c));
		c = 0
	   }
	od
}

init {
	byte c = CLIENTS;

	atomic {
		run World();
		run Clock();
		do
		:: c > 0 -> c--; state[c] = idle; run Client(c)
		:: else -> break
		od
	}
}
