// Package redistest gives tests a real redis-server and a network that fails on command.
//
// Start runs a server for a single test. Shared runs one for the whole test binary, whose
// tests use different key prefixes, from Prefix. Neither uses a server or a configuration
// of the machine. Neither skips: if there is no redis-server, the test fails and says what
// to install.
//
// NewEmbedded returns a store inside the process, for tests in a testing/synctest bubble.
//
// Faults wraps the connections of a client, to a real server or to the embedded store. It
// counts commands, and loses, delays or repeats those that a Rule picks.
//
// A package that uses Shared calls Main in its TestMain:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
package redistest
