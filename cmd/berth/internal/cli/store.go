package cli

import (
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/local"
)

// storeCommand is the process behind local mode; see package local.
func (a *app) storeCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    storeName,
		Short:  "Serve this machine's own store (started by berth itself)",
		Hidden: true,
		Args:   takesNo("arguments"),
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
