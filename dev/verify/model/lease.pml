/*
 * Leases: acquire, renew and release over a network that loses replies and
 * executes copies of requests late.
 *
 * Time is discrete: a tick is any stretch of time in which deadlines pass, and
 * between two ticks everything may happen in any order. All times are counted
 * down, so the model has no horizon: clients may renew for ever. A client's clock
 * ticks with the server's; what clocks run apart by is the margin's matter
 * (internal/claim, trust) and is not shown here.
 *
 * Each client has one id and asks once. What follows under another id is another
 * client to the server, so several clients stand for one that comes again.
 *
 * Promises, by the numbers of docs/guarantees.md:
 *
 *   S1  clients that believe they hold, and leases that the server has, never
 *       exceed the limit
 *   S3  no client believes for longer than the server's lease lasts
 *   S5  no copy takes a second permit, or one for a client that is through
 *   S6  a renewal leaves what has run out as it is
 *
 * Each macro takes one remedy away; each must fail:
 *
 *   -DNOT_IDEMPOTENT      an acquire does not look for a lease of its id
 *   -DNO_TOMBSTONE        a release after an unknown outcome leaves nothing behind
 *   -DNO_TOMBSTONE_ON_EXPIRY  nor does a lease that runs out soon after its grant
 *   -DNO_LATE_BOUND       a copy may be executed at any time
 *   -DFULL_TTL_ON_REREAD  a repeated acquire is told the TTL, not what is left
 *   -DTRUST_FROM_REPLY    the client counts from the reply, not from the request
 *   -DRENEW_RECREATES     a renewal of what is gone makes a lease
 *   -DBUSY_ENDS           a refusal is taken for the end although an earlier copy
 *                         may yet be granted
 *
 * -DLIVE lets a client crash at any moment and asks for progress: the permits that
 * it had, or that a copy takes for it yet, return (L2). It fails with -DNO_EXPIRY,
 * leases that last until they are released.
 *
 * -DLIMIT_ONLY checks S1 alone, to show where a broken S3 or S5 leads.
 */

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef TTL
#define TTL 2      /* ticks that a lease lasts */
#endif
#ifndef CALL
#define CALL 1     /* the latest execution time of a request: so many ticks after it was sent */
#endif
#ifndef RETRY
#define RETRY 2 /* ticks for which a client repeats an acquire without an answer */
#endif
#ifndef LATE
#define LATE 3     /* ticks that a tombstone lasts; RETRY + CALL or more */
#endif

#define COPIES 2   /* requests of one client that may be under way at once */
#define NONE   255 /* the client awaits nothing */
#define GONE   254 /* it awaits a reply, and its request is not under way any more */

mtype = { idle, asking, confirming, holding, leaving, ended };  /* claim.go's states */
mtype = { acquire, renew, release };                            /* requests */
mtype = { granted, busy, gone, renewed, released };             /* replies */

/* The server: what it has for each id. */
byte permits[CLIENTS]; /* taken by the id; more than one is a fault */
byte lease[CLIENTS];   /* ticks until they run out */
byte recent[CLIENTS];  /* ticks until no copy of the acquire can come any more, counted from the grant */
byte tomb[CLIENTS];    /* ticks that the tombstone lasts; 0: there is none */

/* The network: requests that were sent and not yet executed. */
mtype kind[CLIENTS * COPIES]; /* 0: none */
byte life[CLIENTS * COPIES];  /* ticks until it may no longer be executed, plus 1 */
bool unsure[CLIENTS * COPIES]; /* release: a copy of the acquire may be under way, leave a tombstone */

/* The clients. */
mtype state[CLIENTS];
byte trust[CLIENTS];   /* ticks for which the client believes in its lease */
byte current[CLIENTS]; /* the request whose reply it awaits, or NONE */
byte age[CLIENTS];     /* ticks since it sent that */
byte retry[CLIENTS]; /* ticks for which it may repeat the acquire */
byte late[CLIENTS];    /* ticks for which a copy of its acquire may be executed yet */
mtype reply[CLIENTS];  /* 0: not there yet */
byte told[CLIENTS];    /* granted, renewed: ticks left at the moment of execution */

#ifdef LIVE
bool crashed;          /* the first client */
ltl L2 { [] (crashed -> <> [] (permits[0] == 0)) }
#endif

byte taken;            /* permits taken, by all ids */
byte believers;        /* clients that believe */

#define NAME(c) ('A' + c)

inline check() {
	assert(taken <= LIMIT);     /* S1, the server's side */
	assert(believers <= LIMIT)  /* S1, the clients' side */
}

inline check_trust(c) {
#ifdef LIMIT_ONLY
	skip
#else
	assert(trust[c] <= lease[c]) /* S3 */
#endif
}

/* ---- the script ---- */

/* Every lease comes from here. */
inline take(c) {
#ifndef LIMIT_ONLY
	assert(kind[k] == acquire); /* S6: nothing else makes a lease */
	assert(state[c] != ended);  /* S5: the client is through, nobody would ever use it */
	assert(permits[c] == 0);    /* S5: a second permit */
#endif
	permits[c]++;
	taken++;
	lease[c] = TTL;
	recent[c] = LATE;
	check()
}

inline drop(c) {
	taken = taken - permits[c];
	permits[c] = 0;
	lease[c] = 0;
	recent[c] = 0
}

inline run_acquire(c) {
	if
	:: tomb[c] > 0 -> answer = gone
#ifndef NOT_IDEMPOTENT
	:: tomb[c] == 0 && permits[c] > 0 ->
	   answer = granted;
#ifdef FULL_TTL_ON_REREAD
	   lasts = TTL
#else
	   lasts = lease[c]
#endif
	:: tomb[c] == 0 && permits[c] == 0 && taken < LIMIT -> take(c); answer = granted; lasts = TTL
	:: tomb[c] == 0 && permits[c] == 0 && taken >= LIMIT -> answer = busy
#else
	:: tomb[c] == 0 && taken < LIMIT -> take(c); answer = granted; lasts = TTL
	:: tomb[c] == 0 && taken >= LIMIT -> answer = busy
#endif
	fi
}

inline run_renew(c) {
	if
	:: permits[c] > 0 -> lease[c] = TTL; answer = renewed; lasts = TTL
	:: else ->
#ifdef RENEW_RECREATES
	   take(c); answer = renewed; lasts = TTL
#else
	   answer = gone
#endif
	fi
}

inline run_release(c, flagged) {
	if
	:: permits[c] > 0 -> drop(c)
	:: else
	fi;
#ifndef NO_TOMBSTONE
	if
	:: flagged && tomb[c] == 0 -> tomb[c] = LATE
	:: else
	fi;
#endif
	answer = released
}

/* The older copy comes first, so that states that differ by nothing else are one. */
inline remove(k) {
	if
	:: k % COPIES == 0 ->
	   kind[k] = kind[k+1]; life[k] = life[k+1]; unsure[k] = unsure[k+1];
	   kind[k+1] = 0; life[k+1] = 0; unsure[k+1] = false;
	   if
	   :: current[c] == k -> current[c] = GONE
	   :: current[c] == k+1 -> current[c] = k
	   :: else
	   fi
	:: else ->
	   kind[k] = 0; life[k] = 0; unsure[k] = false;
	   if
	   :: current[c] == k -> current[c] = GONE
	   :: else
	   fi
	fi
}

/* A request on its way, and the script that it becomes. Requests of different
 * connections overtake each other. The client gets the reply if it still awaits
 * it; that it never does, is its giving up. */
proctype Request(byte k) {
	byte c = k / COPIES;
	byte lasts;
	mtype answer;

	end: do
	:: d_step {
		kind[k] != 0 ->
		if
		:: kind[k] == acquire -> run_acquire(c)
		:: kind[k] == renew   -> run_renew(c)
		:: kind[k] == release -> run_release(c, unsure[k])
		fi;
		if
		:: current[c] == k ->
		   reply[c] = answer; told[c] = lasts;
		   printf("server: %e of %c: %e; %d taken\n", kind[k], NAME(c), answer, taken)
		:: else ->
		   printf("server: %e of %c, a late copy: %e; %d taken\n", kind[k], NAME(c), answer, taken)
		fi;
		remove(k);
		answer = 0; lasts = 0
	   }
	od
}

/* ---- the client ---- */

/* The client awaits nothing, and not both copies are under way. */
#define FREE(c) (current[c] == NONE && kind[c*COPIES+1] == 0)

inline send(c, what) {
	k = (kind[c*COPIES] == 0 -> c*COPIES : c*COPIES+1);
	kind[k] = what;
	life[k] = CALL + 1;
	unsure[k] = (what == release && late[c] > 0);
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
	if
	:: trust[c] > 0 -> believers--
	:: else
	fi;
#ifdef TRUST_FROM_REPLY
	trust[c] = told[c];
#else
	trust[c] = (told[c] > age[c] -> told[c] - age[c] : 0);
#endif
	if
	:: trust[c] > 0 -> believers++; printf("%c: believes, for %d ticks; %d of %d\n", NAME(c), trust[c], believers, LIMIT)
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

/* A client that takes no more steps has crashed; what it believed it then
 * believes until the deadline, which is the worse for the model. */
proctype Client(byte c) {
	byte k;

	end: do
	/* The acquire, and as many more as it likes while it may retry. That A
	 * is the first of all is no restriction: the clients are alike. */
	:: d_step {
		state[c] == idle && (c == 0 || state[0] != idle) ->
		state[c] = asking;
		retry[c] = RETRY;
		send(c, acquire)
	   }
	:: d_step { state[c] == asking && retry[c] > 0 && FREE(c) -> send(c, acquire) }

#ifdef LIVE
	:: d_step { c == 0 && !crashed -> crashed = true; printf("%c: crashes\n", NAME(c)) } -> break
#endif
	/* No reply, for whatever reason: the outcome is unknown. */
	:: d_step {
		current[c] != NONE ->
		printf("%c: gives the call up\n", NAME(c));
		if
		:: state[c] == asking -> late[c] = LATE
		:: else
		fi;
		heard(c)
	   }

	:: d_step {
		state[c] == asking && reply[c] == granted ->
		believe(c);
		state[c] = (trust[c] > 0 -> holding : confirming);
		retry[c] = 0;
		heard(c)
	   }
	:: d_step {
		state[c] == asking && reply[c] == busy ->
		if
#ifndef BUSY_ENDS
		:: late[c] > 0 -> state[c] = leaving; retry[c] = 0; printf("%c: is refused, and cancels\n", NAME(c))
		:: late[c] == 0 -> through(c)
#else
		:: through(c)
#endif
		fi;
		heard(c)
	   }
	/* Its lease came and went. It goes on under another id. */
	:: d_step { reply[c] == gone && state[c] != leaving -> through(c); heard(c) }

	:: d_step { (state[c] == holding || state[c] == confirming) && FREE(c) -> send(c, renew) }
	:: d_step {
		state[c] == confirming && reply[c] == renewed ->
		believe(c);
		state[c] = (trust[c] > 0 -> holding : confirming);
		heard(c)
	   }
	:: d_step {
		state[c] == holding && reply[c] == renewed ->
		if
		:: trust[c] > 0 -> believe(c)
		:: else /* lost is lost */
		fi;
		heard(c)
	   }

	/* It releases, is told of its loss by its own clock, or gives up asking. It
	 * stops to believe before it asks. */
	:: d_step {
		state[c] == holding || state[c] == confirming || (state[c] == asking && current[c] == NONE) ->
		printf("%c: leaves\n", NAME(c));
		doubt(c);
		state[c] = leaving;
		retry[c] = 0;
		heard(c)
	   }
	:: d_step { state[c] == leaving && FREE(c) -> send(c, release) }
	:: d_step { state[c] == leaving && reply[c] == released -> through(c); heard(c) }
	od
}

/* ---- time ---- */

inline tick(c) {
	if
	:: recent[c] > 0 -> recent[c]--
	:: else
	fi;
	if
	:: tomb[c] > 0 -> tomb[c]--
	:: else
	fi;
	if
	:: lease[c] > 1 -> lease[c]--
#ifndef NO_EXPIRY
	:: lease[c] == 1 ->
#if !defined(NO_TOMBSTONE) && !defined(NO_TOMBSTONE_ON_EXPIRY)
	   tomb[c] = recent[c];
#endif
	   drop(c);
	   printf("server: the lease of %c has run out\n", NAME(c))
#endif
	:: else
	fi;
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
	fi;
	check_trust(c)
}

proctype Clock() {
	byte i, c;

	end: do
	:: d_step {
		printf("        tick\n");
#ifndef NO_LATE_BOUND
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
#endif
		for (c : 0 .. CLIENTS-1) {
			tick(c)
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
