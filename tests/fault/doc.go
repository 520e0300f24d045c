// Package fault has no code. Its tests break the network, the server or the load
// under the library at a chosen moment, or at random ones, and check that no promise
// breaks with it.
package fault
