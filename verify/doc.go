// Package verify checks what docs/guarantees.md promises: client processes run
// against a real redis-server while faults strike both, write down what they
// asked, were told and believed, and package judge decides afterwards.
//
//	go test ./verify                                 a short run of everything
//	go test ./verify -run TestStorm/keep -storm 2m   one scenario, for longer
//	go test ./verify -run TestMutants -mutants       planted bugs, each to be caught
//	go test ./verify -run TestStorm -seed 42         the run that failed, as far as
//	                                                 a machine repeats itself
//
// A run that fails prints its seed and the path of a page with what it saw.
// docs/verification.md tells what is checked, how, and which bugs it has caught.
package verify
