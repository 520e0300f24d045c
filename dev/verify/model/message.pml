/*
 * Messages: a waiter is told of its grant by a message, which may be lost or late, and
 * which others may forge who do not know its id. What is between the waiter and the
 * server otherwise is lost, repeated and executed late, as in lease.pml; discrete time.
 *
 * One client, A, waits for the only permit. Somebody else has it by turns: that it is
 * taken and given back is one step each, at any moment. A hand-off leaves the deadline
 * as it was: the waiter's heartbeat TTL becomes the lease's. A grant by message comes
 * without a time; A counts from when it sent the last sign of life that was answered.
 * A's lease is never renewed, and A never gives it back: that is lease.pml's matter.
 *
 * Promises, by the numbers of docs/guarantees.md:
 *
 *   S3  A does not believe for longer than the server's lease lasts
 *   S6  who is told that its lease is lost has lost it
 *
 * Each macro takes one remedy away; each must fail:
 *
 *   -DTRUST_FROM_MESSAGE  A counts the TTL from the message
 *   -DTRUST_FROM_UNANSWERED  A counts from the last sign of life, answered or not
 *   -DSAME_ID             A place that was lost is asked for again under the same id
 *   -DGUESSABLE           others know A's ids
 *   -DEND_ENDS            a message of an end ends a lease
 */

#define IDS 2      /* that A may use */
#define TTL 3      /* ticks that a place, or a lease, lasts after a sign of life */
#define CALL 2     /* the latest execution time of a request: so many ticks after it was sent */
#define NONE 255   /* A awaits nothing */

mtype = { asking, queued, holding, lost };     /* claim.go's states */
mtype = { acquire, heartbeat };                /* requests */
mtype = { granted, waits, gone };              /* replies */
mtype = { waiter, holder };                    /* what the server has for an id */

/* The server. */
mtype what[IDS];       /* 0: nothing */
byte left[IDS];        /* ticks until its deadline */
bool tomb[IDS];        /* it was there, and has run out */
bool other;            /* somebody else has the permit */

/* The network. */
bool note[IDS];        /* a message of the grant of this id is under way */
mtype kind[2];         /* requests that were sent and not yet executed; 0: none */
byte life[2];          /* ticks until it may no longer be executed, plus 1 */
byte whose[2];         /* its id */

/* A. */
mtype state;
byte id;               /* that it uses now */
byte trust;            /* ticks for which it believes in its lease */
byte current = NONE;   /* the request whose reply it awaits */
byte age;              /* ticks since it sent that */
byte heard;            /* ticks since it sent the last sign of life that was answered, up to TTL */
bool fresh = true;     /* nothing was sent for this id */
mtype reply;           /* 0: not there yet */
byte told;             /* granted: ticks left at the moment of execution */

inline check() {
	assert(trust == 0 || what[id] == holder && trust <= left[id]) /* S3 */
}

/* ---- the script ---- */

#define TAKEN (other || what[0] == holder || what[IDS-1] == holder)

/* Whoever waits is granted in the same step; nobody is ever passed. */
inline pump() {
	if
	:: !TAKEN && what[0] == waiter -> what[0] = holder; note[0] = true; printf("server: hands off to id 0\n")
	:: !TAKEN && what[0] != waiter && what[IDS-1] == waiter ->
	   what[IDS-1] = holder; note[IDS-1] = true; printf("server: hands off to id %d\n", IDS-1)
	:: else
	fi
}

inline execute(k) {
	x = whose[k];
	if
	:: kind[k] == acquire && what[x] == 0 && !tomb[x] ->
	   what[x] = (TAKEN -> waiter : holder);
	   left[x] = TTL
	:: what[x] == waiter -> left[x] = TTL
	:: else
	fi;
	if
	:: what[x] == waiter -> answer = waits
	:: what[x] == holder -> answer = granted
	:: else -> answer = gone
	fi;
	if
	:: current == k -> reply = answer; told = left[x]; current = 2; printf("server: %e of id %d: %e\n", kind[k], x, answer)
	:: else -> printf("server: %e of id %d, a late copy: %e\n", kind[k], x, answer)
	fi;
	kind[k] = 0; life[k] = 0; whose[k] = 0;
	x = 0; answer = 0
}

proctype Server() {
	byte x;
	mtype answer;

	end: do
	:: d_step { kind[0] != 0 -> execute(0) }
	:: d_step { kind[1] != 0 -> execute(1) }
	:: d_step { !TAKEN -> other = true; printf("        somebody else acquires\n") }
	:: d_step { other -> other = false; printf("        somebody else releases\n"); pump() }
	od
}

/* ---- A ---- */

#define FREE (current == NONE && (kind[0] == 0 || kind[1] == 0))

inline send(verb) {
	k = (kind[0] == 0 -> 0 : 1);
	kind[k] = verb; life[k] = CALL + 1; whose[k] = id;
	current = k; age = 0;
#ifdef TRUST_FROM_UNANSWERED
	heard = 0;
#endif
	printf("A: sends %e of id %d\n", verb, id);
	k = 0
}

inline through() { current = NONE; age = 0; reply = 0; told = 0 }

inline believe(lasts, since) {
	trust = (lasts > since -> lasts - since : 0);
	state = (trust > 0 -> holding : lost);
	printf("A: believes, for %d ticks\n", trust);
	check()
}

/* It queues again, at the end. */
inline again() {
	state = asking;
	fresh = true;
#ifndef SAME_ID
	if
	:: id < IDS-1 -> id++
	:: else -> state = lost /* enough ids for this world */
	fi;
#endif
	printf("A: its place is gone\n")
}

inline grant() {
	if
	:: state == asking || state == queued ->
	   printf("A: hears of its grant\n");
#ifdef TRUST_FROM_MESSAGE
	   believe(TTL, 0);
#else
	   believe(TTL, heard);
#endif
	   current = (current < 2 -> NONE : current);
	   through()
	:: else
	fi
}

proctype A() {
	byte k;

	end: do
	:: d_step {
		state == asking && FREE ->
		send(acquire);
		heard = (fresh -> 0 : heard); /* the first of its id: no grant is older */
		fresh = false
	   }
	:: d_step { state == queued && FREE -> send(heartbeat) }
	/* No reply, for whatever reason: the outcome is unknown. */
	:: d_step { current != NONE -> printf("A: gives the call up\n"); through() }

	:: d_step { (state == asking || state == queued) && reply == waits -> state = queued; heard = age; through() }
	:: d_step {
		(state == asking || state == queued) && reply == granted ->
		believe(told, age);
		through()
	   }
	:: d_step { (state == asking || state == queued) && reply == gone -> again(); through() }

	/* A message: of its id, or it is not heeded. */
	:: d_step { note[0] -> note[0] = false; if :: id == 0 -> grant() :: else fi }
	:: d_step { note[IDS-1] -> note[IDS-1] = false; if :: id == IDS-1 -> grant() :: else fi }
	:: d_step { note[0] -> note[0] = false; printf("        a message is lost\n") }
#ifdef GUESSABLE
	:: d_step { state == asking || state == queued -> printf("        somebody forges a grant\n"); grant() }
#endif
	/* Somebody who has read the id in a list tells of its end: a reason to ask. */
	:: d_step {
		state == holding && FREE ->
		printf("        somebody forges an end\n");
#ifdef END_ENDS
		assert(what[id] != holder); /* S6 */
		state = lost; trust = 0
#else
		send(heartbeat)
#endif
	   }
	:: d_step { state == holding && reply != 0 && reply != gone -> through() }
	:: d_step {
		state == holding && reply == gone ->
		assert(what[id] != holder); /* S6 */
		state = lost; trust = 0; through()
	   }
	od
}

/* ---- time ---- */

inline tick(x) {
	if
	:: left[x] > 1 -> left[x]--
	:: left[x] == 1 -> left[x] = 0; what[x] = 0; tomb[x] = true; printf("server: id %d has run out\n", x)
	:: else
	fi
}

proctype Clock() {
	byte k;

	end: do
	:: d_step {
		printf("        tick\n");
		for (k : 0 .. 1) {
			if
			:: life[k] > 1 -> life[k]--
			:: life[k] == 1 -> kind[k] = 0; life[k] = 0; whose[k] = 0; current = (current == k -> 2 : current)
			:: else
			fi
		}
		k = 0;
		tick(0);
		tick(IDS-1);
		pump();
		if
		:: current != NONE && age < TTL -> age++
		:: else
		fi;
		if
		:: heard < TTL -> heard++
		:: else
		fi;
		if
		:: trust == 1 -> trust = 0; state = lost; printf("A: believes no longer\n")
		:: trust > 1 -> trust--
		:: else
		fi;
		check()
	   }
	od
}

init {
	atomic {
		state = asking;
		run Clock();
		run Server();
		run A()
	}
}
