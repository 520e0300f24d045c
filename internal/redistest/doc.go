// Package redistest gives tests a real redis-server and a network that fails
// on command.
//
// Start runs a server of its own for one test; Shared runs one for the whole
// test binary, whose tests keep out of each other's way with Prefix. Neither
// touches a server or a configuration of the machine, and neither skips: a
// test that needs Redis and finds none fails and says what to install.
//
// Faults wraps the connections of a client, to a real server or to the
// embedded store inside a testing/synctest bubble, counts the commands that
// pass and loses, delays or repeats those that a Rule picks.
//
// A package that uses Shared hands its tests to Main:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
package redistest
