/*
 * The fair semaphore of Redis in Action, section 6.3 (the chapter; listing 6.14), and its
 * last one, under a lock.
 *
 * An acquire is three round trips, each a MULTI/EXEC that Redis runs as one step:
 *
 *   1  drop what timed out from both sets; take the next number of the counter
 *   2  add oneself to both sets; ask for one's rank among the owners
 *   3  rank too high: take oneself out again
 *
 * Between 1 and 2 anything can happen. Nobody here is late, dead or without a
 * clock: whatever goes wrong, goes wrong on a good day.
 *
 *   (none)                     the fair semaphore as printed: the limit is exceeded
 *   -DLOCKED                   the same under the chapter's lock: holds
 *   -DLOCKED -DLOCK_RUNS_OUT   the lock has a time-out and its holder is slow:
 *                              exceeded again
 */

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* acquires of each client, so that numbers of the past are there too */
#endif

/* What Redis has. A score of 0 says that the member is not in the owner set. */
bool timed[CLIENTS];  /* members of the time-out set; nobody stays too long */
byte owner[CLIENTS];  /* scores in the owner set */
byte counter;
byte lock;            /* 0: free, else the number of the client that has it, plus 1 */

byte holders;         /* clients that believe they hold a permit */

#define NAME(c) ('A' + c)

/* ZRANK in the owner set: how many members have a smaller score. */
inline rank_of(me) {
	rank = 0;
	for (i : 0 .. CLIENTS-1) {
		if
		:: owner[i] > 0 && owner[i] < owner[me] -> rank++
		:: else
		fi
	}
	i = 0
}

proctype Client(byte me) {
	byte number, rank, i, round;

	do
	:: round == ROUNDS -> break
	:: round < ROUNDS ->
		round++;
#ifdef LOCKED
		atomic { lock == 0 -> lock = me + 1; printf("%c: has the lock\n", NAME(me)) }
#endif
		/* ZREMRANGEBYSCORE and ZINTERSTORE, INCR: an owner without a time-out goes. */
		d_step {
			for (i : 0 .. CLIENTS-1) {
				if
				:: !timed[i] -> owner[i] = 0
				:: else
				fi
			}
			i = 0;
			counter++;
			number = counter;
			printf("%c: INCR counter gives %d\n", NAME(me), number)
		}
		/* ZADD, ZADD, ZRANK. Here a smaller number may come after a larger one has
		 * been told that it ranks low enough. */
		d_step {
			timed[me] = true;
			owner[me] = number;
			rank_of(me);
			printf("%c: ZADD with score %d, ZRANK gives %d\n", NAME(me), number, rank)
		}
		number = 0;
#ifdef LOCKED
		atomic { /* release by compare: another's lock is left alone */
			if
			:: lock == me + 1 -> lock = 0; printf("%c: gives the lock back\n", NAME(me))
			:: else
			fi
		}
#endif
		if
		:: d_step {
			rank < LIMIT ->
			rank = 0;
			holders++;
			printf("%c: holds; %d of %d\n", NAME(me), holders, LIMIT)
		   }
		   assert(holders <= LIMIT); /* limit */
		   /* ZREM from both sets; the holder stops believing before it asks. */
		   holders--;
		   d_step { timed[me] = false; owner[me] = 0; printf("%c: released\n", NAME(me)) }
		:: rank >= LIMIT ->
		   d_step { rank = 0; timed[me] = false; owner[me] = 0; printf("%c: refused, ZREM\n", NAME(me)) }
		fi
	od
}

#ifdef LOCK_RUNS_OUT
/* The lock's EXPIRE. It cannot know whether its holder is dead or only slow. */
active proctype Expire() {
	end: do
	:: atomic { lock != 0 -> printf("   the lock of %c times out\n", NAME(lock - 1)); lock = 0 }
	od
}
#endif

init {
	byte c = CLIENTS;
	atomic { /* A last: the search then tries A's steps first, which suits readers */
		do
		:: c > 0 -> c--; run Client(c)
		:: else -> break
		od
	}
}
