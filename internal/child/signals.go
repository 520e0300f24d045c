package child

import (
	"os"
	"os/signal"
	"syscall"
)

// UsualSignals makes SIGINT and SIGHUP end the processes that this one starts from now on, even if it
// was itself started with these ignored: in the background of a script, or by nohup. What is ignored
// is inherited; what is caught is not. This process goes on ignoring them.
func UsualSignals() {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
