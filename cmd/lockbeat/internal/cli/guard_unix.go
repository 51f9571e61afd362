//go:build unix

package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/guard"
)

// addGuard adds the command by which the program becomes a guard: see package
// guard.
func addGuard(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use: guard.Hidden + " SOCKET", Hidden: true, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("it is `lockbeat run` that starts this")
			}
			fd, err := strconv.Atoi(args[0])
			if err != nil || fd < 3 {
				return exit.Usagef("it is `lockbeat run` that starts this")
			}
			return guard.Main(fd)
		},
	})
}
