// Package agent lets programs in any language take permits: they ask one process on their
// machine, over a unix socket, and that process speaks to Redis.
//
// A request for a permit is a connection. It begins with an HTTP request, POST /v1/hold, and
// the answer is a line of JSON for each thing that happens, until the connection ends:
//
//	state    the client has          leaves it by
//	reading  sent a part of it       read → waiting, or refused with a status and closed
//	waiting  no permit               granted → holding; refused, gone, or stopping → closed
//	holding  the permit              gone, done, silent, slow, lost, or stopping → closed
//	closed   nothing
//
// gone: the connection has ended, with the program or without it. done: the client has shut
// down its half of the connection and reads on, to learn that the permit was given back.
// silent: it did not write as often as it said it would (beat_ms). slow: it does not read.
// stopping: the agent is about to end. However a connection ends, its permit is given back.
//
// A hold has two goroutines. One reads, which is how it learns of the end of the connection,
// and ends the context of the other, which acquires, writes all lines, and releases. The
// connection is hijacked from net/http, which would keep four times as much memory for it.
package agent
