// Package verify checks the promises of docs/guarantees.md. Client processes use a
// real redis-server while faults strike both, and record what they asked, what they
// were told and what they believed. Afterwards package promises decides from these
// records whether every promise was kept.
//
//	go test ./dev/verify                                 a short run of everything
//	go test ./dev/verify -run TestStorm/keep -storm 2m   one scenario, for longer
//	go test ./dev/verify -run TestMutants -mutants       planted bugs, each to be caught
//	go test ./dev/verify -run TestStorm -seed 42         the faults of seed 42 again;
//	                                                     timing still differs
//
// A run that fails prints its seed and the path of a page that shows what happened.
// README.md beside this says what is checked, how, and which bugs it has caught.
package verify
