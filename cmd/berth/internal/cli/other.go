package cli

import (
	"fmt"
	"os/signal"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/local"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print the version of berth, and of the Go and the system it was built for.",
		Example: "  berth version",
		GroupID: groupOther,
		Args:    cobra.NoArgs,
		RunE: runs(func(*cobra.Command, []string) error {
			return a.print(fmt.Sprintf("berth %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
		}),
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// storeCommand is the process behind local mode; see package local.
func (a *app) storeCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    storeName,
		Short:  "Serve this machine's own store (started by berth itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	cmd.Flags().StringVar(&dir, "dir", "", "where its socket is")
	cmd.RunE = runs(func(cmd *cobra.Command, _ []string) error {
		idle, err := idleTime()
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
		defer stop()
		return local.Serve(ctx, dir, idle)
	})
	return cmd
}
