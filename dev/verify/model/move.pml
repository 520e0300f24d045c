/*
 * Moves: a lease is given away by one client and adopted by one of two others, who
 * were both given the handle. Requests are lost, repeated and executed late, as in
 * lease.pml; discrete time, too.
 *
 * A acquires under its own id, and then either releases or detaches: the lease moves
 * to the id of a handle, H. When A is told that it has, B and C learn the handle, and
 * each moves the lease to its own id. There are no renewals here: they are lease.pml's.
 *
 * Promises, by the numbers of docs/guarantees.md:
 *
 *   S1  clients that believe they hold, and leases that the server has, never
 *       exceed the limit
 *   S3  no client believes for longer than the server's lease lasts
 *   S5  one client at most is told that it has adopted; no copy takes a permit, or
 *       moves one, for a client that is through; and who is told that the lease is
 *       gone does not have it
 *
 * Each macro takes one remedy away; each must fail:
 *
 *   -DMOVE_COPIES         the old id keeps the lease
 *   -DMOVE_NOT_IDEMPOTENT a repeated move does not look at the new id
 *   -DNO_TOMBSTONE_ON_MOVE  nothing is left at the old id for late copies of the acquire
 *   -DNO_TOMBSTONE_AT_NEW_ID  nor does the release of an id to which a lease may be on its way
 *   -DONE_RELEASE         after a move of unknown outcome only the old id is released
 *   -DFULL_TTL_ON_REPEAT  a repeated move is told the TTL, not what is left
 *   -DTRUST_FROM_REPLY    the client counts from the reply, not from the request
 *   -DBELIEVES_ON         who detaches relies on the lease until it is told that it moved
 */

#define LIMIT 1
#define TTL 2      /* ticks that a lease lasts */
#define CALL 1     /* the latest execution time of a request: so many ticks after it was sent */
#define RETRY 2 /* ticks for which a client repeats a request without an answer */
#define LATE 3     /* ticks that a tombstone lasts; RETRY + CALL or more */

#define CLIENTS 3
#define COPIES 2   /* requests of one client that may be under way at once */
#define H CLIENTS  /* the handle's id; the others are those of the clients, A is 0 */
#define NONE 255   /* the client awaits nothing */
#define GONE 254   /* it awaits a reply, and its request is not under way any more */

mtype = { idle, asking, holding, detaching, adopting, leaving, ended }; /* claim.go's states */
mtype = { acquire, move, release };                                     /* requests */
mtype = { granted, busy, gone, released };                              /* replies; a move is granted, too */

/* The server: what it has for each id. */
byte permits[CLIENTS + 1];
byte lease[CLIENTS + 1]; /* ticks until they run out */
byte tomb[CLIENTS + 1];  /* ticks that the tombstone lasts; 0: there is none */
byte recent;             /* ticks until no copy of A's acquire can come any more, counted from the grant */

/* The network: requests that were sent and not yet executed. */
mtype kind[CLIENTS * COPIES]; /* 0: none */
byte life[CLIENTS * COPIES];  /* ticks until it may no longer be executed, plus 1 */
bool unsure[CLIENTS * COPIES]; /* release: leave a tombstone */
bool ofH[CLIENTS * COPIES];   /* release: of the handle's id */

/* The clients. */
mtype state[CLIENTS];
byte trust[CLIENTS];   /* ticks for which the client believes in its lease */
byte current[CLIENTS]; /* the request whose reply it awaits, or NONE */
byte age[CLIENTS];     /* ticks since it sent that */
byte retry[CLIENTS]; /* ticks for which it may repeat its request */
byte late[CLIENTS];    /* ticks for which a copy of it may be executed yet */
mtype reply[CLIENTS];  /* 0: not there yet */
byte told[CLIENTS];    /* granted: ticks left at the moment of execution */
bool both;             /* A leaves after a move of unknown outcome: H is to be released first */
bool handed;           /* B and C have the handle */

byte taken;            /* permits taken, by all ids */
byte believers;        /* clients that believe */
byte adopters;         /* clients that were told that they have adopted */

#define NAME(c) ('A' + c)

inline check() {
	assert(taken <= LIMIT);     /* S1, the server's side */
	assert(believers <= LIMIT)  /* S1, the clients' side */
}

inline check_trust(c) {
	assert(trust[c] <= lease[c]) /* S3 */
}

/* ---- the script ---- */

inline drop(x) {
	taken = taken - permits[x];
	permits[x] = 0;
	lease[x] = 0
}

inline run_acquire() {
	if
	:: tomb[0] > 0 -> answer = gone
	:: tomb[0] == 0 && permits[0] > 0 -> answer = granted; lasts = lease[0]
	:: tomb[0] == 0 && permits[0] == 0 && taken < LIMIT ->
	   assert(state[0] != ended); /* S5: the client is through, nobody would ever use it */
	   permits[0] = 1; taken++; lease[0] = TTL; recent = LATE;
	   answer = granted; lasts = TTL
	:: tomb[0] == 0 && permits[0] == 0 && taken >= LIMIT -> answer = busy
	fi;
	check()
}

inline run_move(from, to) {
	if
#ifndef MOVE_NOT_IDEMPOTENT
	:: permits[to] > 0 ->
	   answer = granted;
#ifdef FULL_TTL_ON_REPEAT
	   lasts = TTL
#else
	   lasts = lease[to]
#endif
#else
	:: permits[to] > 0 -> answer = gone
#endif
	:: permits[to] == 0 && tomb[to] == 0 && permits[from] > 0 ->
	   assert(c == 0 || state[c] != ended); /* S5: the client is through, nobody would ever use it */
	   assert(c != 0 || state[c] == detaching || state[c] == leaving); /* S5: nobody would learn the handle */
	   permits[to] = permits[from]; lease[to] = TTL;
#ifdef MOVE_COPIES
	   taken = taken + permits[to];
#else
	   permits[from] = 0; lease[from] = 0;
#ifndef NO_TOMBSTONE_ON_MOVE
	   tomb[from] = LATE;
#endif
#endif
	   answer = granted; lasts = TTL
	:: else -> answer = gone
	fi
}

inline run_release(x, flagged) {
	if
	:: permits[x] > 0 -> drop(x)
	:: else
	fi;
	if
#ifdef NO_TOMBSTONE_AT_NEW_ID
	:: flagged && tomb[x] == 0 && x == 0 -> tomb[x] = LATE
#else
	:: flagged && tomb[x] == 0 -> tomb[x] = LATE
#endif
	:: else
	fi;
	answer = released
}

/* The older copy comes first, so that states that differ by nothing else are one. */
inline remove(k) {
	if
	:: k % COPIES == 0 ->
	   kind[k] = kind[k+1]; life[k] = life[k+1]; unsure[k] = unsure[k+1]; ofH[k] = ofH[k+1];
	   kind[k+1] = 0; life[k+1] = 0; unsure[k+1] = false; ofH[k+1] = false;
	   if
	   :: current[c] == k -> current[c] = GONE
	   :: current[c] == k+1 -> current[c] = k
	   :: else
	   fi
	:: else ->
	   kind[k] = 0; life[k] = 0; unsure[k] = false; ofH[k] = false;
	   if
	   :: current[c] == k -> current[c] = GONE
	   :: else
	   fi
	fi
}

/* A request on its way, and the script that it becomes. */
proctype Request(byte k) {
	byte c = k / COPIES;
	byte lasts;
	mtype answer;

	end: do
	:: d_step {
		kind[k] != 0 ->
		if
		:: kind[k] == acquire -> run_acquire()
		:: kind[k] == move && c == 0 -> run_move(0, H)
		:: kind[k] == move && c != 0 -> run_move(H, c)
		:: kind[k] == release && ofH[k] -> run_release(H, unsure[k])
		:: kind[k] == release && !ofH[k] -> run_release(c, unsure[k])
		fi;
		if
		:: current[c] == k ->
		   reply[c] = answer; told[c] = lasts;
		   printf("server: %e of %c: %e\n", kind[k], NAME(c), answer)
		:: else ->
		   printf("server: %e of %c, a late copy: %e\n", kind[k], NAME(c), answer)
		fi;
		remove(k);
		answer = 0; lasts = 0
	   }
	od
}

/* ---- the clients ---- */

/* The client awaits nothing, and not both copies are under way. */
#define FREE(c) (current[c] == NONE && kind[c*COPIES+1] == 0)

inline send(c, what) {
	k = (kind[c*COPIES] == 0 -> c*COPIES : c*COPIES+1);
	kind[k] = what;
	life[k] = CALL + 1;
	unsure[k] = (what == release && late[c] > 0);
	ofH[k] = (what == release && c == 0 && both);
	current[c] = k;
	age[c] = 0;
	printf("%c: sends %e\n", NAME(c), what);
	k = 0
}

inline heard(c) {
	current[c] = NONE; age[c] = 0; reply[c] = 0; told[c] = 0
}

/* The trust deadline: what the server said was left, counted from the sending. */
inline believe(c) {
#ifdef TRUST_FROM_REPLY
	trust[c] = told[c];
#else
	trust[c] = (told[c] > age[c] -> told[c] - age[c] : 0);
#endif
	if
	:: trust[c] > 0 -> believers++; printf("%c: believes, for %d ticks\n", NAME(c), trust[c])
	:: else -> printf("%c: the lease is too old to be believed in\n", NAME(c))
	fi;
	check();
	check_trust(c)
}

inline doubt(c) {
	if
	:: trust[c] > 0 -> trust[c] = 0; believers--
	:: else
	fi
}

inline through(c) {
	doubt(c);
	state[c] = ended;
	late[c] = 0;
	retry[c] = 0;
	printf("%c: is through\n", NAME(c))
}

inline leaves(c) {
	printf("%c: leaves\n", NAME(c));
	doubt(c);
	state[c] = leaving;
	retry[c] = 0;
	heard(c)
}

proctype Client(byte c) {
	byte k;

	end: do
	:: d_step { c == 0 && state[c] == idle -> state[c] = asking; retry[c] = RETRY; send(c, acquire) }
	:: d_step { state[c] == asking && retry[c] > 0 && FREE(c) -> send(c, acquire) }
	:: d_step { c != 0 && state[c] == idle && handed -> state[c] = adopting; retry[c] = RETRY; send(c, move) }
	:: d_step { state[c] == adopting && retry[c] > 0 && FREE(c) -> send(c, move) }

	/* No reply, for whatever reason: the outcome is unknown. */
	:: d_step {
		current[c] != NONE ->
		printf("%c: gives the call up\n", NAME(c));
		if
		:: state[c] == asking || state[c] == adopting || state[c] == detaching -> late[c] = LATE
		:: else
		fi;
		heard(c)
	   }

	:: d_step {
		(state[c] == asking || state[c] == adopting) && reply[c] == granted ->
		if
		:: state[c] == adopting -> adopters++
		:: else
		fi;
		assert(adopters <= 1); /* S5: a handle is good once */
		believe(c);
		if
		:: trust[c] > 0 -> state[c] = holding; retry[c] = 0; heard(c)
		:: else -> leaves(c)
		fi
	   }
	:: d_step { state[c] == asking && reply[c] == busy -> leaves(c) }
	:: d_step {
		(state[c] == asking || state[c] == adopting || state[c] == detaching) && reply[c] == gone ->
		assert(state[c] != adopting || permits[c] == 0); /* S5: it is told that the lease is gone, and has it */
		assert(state[c] != detaching || permits[H] == 0); /* S5: the same */
		through(c);
		heard(c)
	   }

	:: d_step {
		c == 0 && state[c] == holding && FREE(c) ->
#ifndef BELIEVES_ON
		doubt(c);
#endif
		state[c] = detaching; retry[c] = RETRY;
		send(c, move)
	   }
	:: d_step { state[c] == detaching && retry[c] > 0 && FREE(c) -> send(c, move) }
	:: d_step {
		state[c] == detaching && reply[c] == granted ->
		through(c);
		heard(c);
		handed = true;
		printf("B and C have the handle\n")
	   }
	/* It may have moved: both ids are released, the new one first. */
	:: d_step {
		state[c] == detaching && current[c] == NONE ->
#ifndef ONE_RELEASE
		both = true;
#endif
		leaves(c)
	   }

	:: d_step { state[c] == holding -> leaves(c) }
	:: d_step { (state[c] == asking || state[c] == adopting) && current[c] == NONE -> leaves(c) }
	:: d_step { state[c] == leaving && FREE(c) -> send(c, release) }
	:: d_step { state[c] == leaving && reply[c] == released && both && c == 0 -> both = false; heard(c) }
	:: d_step {
		state[c] == leaving && reply[c] == released && (!both || c != 0) ->
		through(c);
		heard(c);
		assert(c != 0 || permits[H] == 0) /* S5: nobody has the handle, nobody would ever use it */
	   }
	od
}

/* ---- time ---- */

inline tick_server(x) {
	if
	:: tomb[x] > 0 -> tomb[x]--
	:: else
	fi;
	if
	:: lease[x] > 1 -> lease[x]--
	:: lease[x] == 1 ->
	   if
	   :: x == 0 -> tomb[x] = recent
	   :: else
	   fi;
	   drop(x);
	   printf("server: a lease has run out\n")
	:: else
	fi
}

inline tick_client(c) {
	if
	:: late[c] > 0 -> late[c]--
	:: else
	fi;
	if
	:: retry[c] > 0 -> retry[c]--
	:: else
	fi;
	if
	:: current[c] != NONE && age[c] < TTL && state[c] != leaving -> age[c]++
	:: else
	fi;
	if
	:: trust[c] == 1 -> trust[c] = 0; believers--; printf("%c: believes no longer\n", NAME(c))
	:: trust[c] > 1 -> trust[c]--
	:: else
	fi
}

proctype Clock() {
	byte i, c;

	end: do
	:: d_step {
		printf("        tick\n");
		for (c : 0 .. CLIENTS-1) {
			i = (c + 1) * COPIES;
			do
			:: i > c * COPIES ->
			   i--;
			   if
			   :: life[i] > 1 -> life[i]--
			   :: life[i] == 1 -> remove(i) /* the server would refuse it as too late */
			   :: else
			   fi
			:: else -> break
			od
		}
		for (c : 0 .. H) {
			tick_server(c)
		}
		if
		:: recent > 0 -> recent--
		:: else
		fi;
		for (c : 0 .. CLIENTS-1) {
			tick_client(c);
			check_trust(c)
		}
		i = 0; c = 0;
		check()
	   }
	od
}

init {
	byte c = CLIENTS;

	atomic {
		run Clock();
		do
		:: c > 0 ->
			c--;
			state[c] = idle;
			current[c] = NONE;
			run Request(c * COPIES);
			run Request(c * COPIES + 1);
			run Client(c)
		:: else -> break
		od
	}
}
