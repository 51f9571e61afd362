// Package cli is the command line: it knows all commands, and none of them
// knows it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/doctor"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/locks"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/run"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/serve"
	"github.com/lockbeat/lockbeat/internal/deployment"
)

// Main runs the program with its arguments and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	return execute(context.Background(), args, stdout, stderr)
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := New()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var e *exit.Error
	if err != nil && (!errors.As(err, &e) || e.Err != nil) {
		out.Message(stderr, err.Error())
	}
	return exit.Status(err)
}

// New returns the root command with all others below it.
func New() *cobra.Command {
	var file string
	root := &cobra.Command{
		Use:   "lockbeat",
		Short: "Distributed locks in Redis, from the command line",
		Long: "Distributed locks in Redis, from the command line.\n\n" +
			"The environment or a file says where Redis is: see `lockbeat help environment`.",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknown(cmd, args[0])
		},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			stderr := cmd.ErrOrStderr()
			cmd.SetContext(connect.With(cmd.Context(), connect.Source{
				File: file,
				Warn: func(text string) { out.Warn(stderr, text) },
			}))
		},
	}
	root.PersistentFlags().StringVar(&file, "config", "",
		"a `file` with lines of VARIABLE=value (default $"+connect.FileVariable+")")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit.Usagef("%w", err) })
	root.AddCommand(run.New(), doctor.Command(), serve.Command(), environment())
	root.AddCommand(locks.Commands()...)
	addGuard(root)
	return root
}

// version is the release that this program was built from, or the commit, as
// far as Go knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}

// unknown is the error for a word that is no command.
func unknown(cmd *cobra.Command, word string) error {
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		return exit.Usagef("there is no command %q; did you mean %s?", word,
			strings.Join(like, " or "))
	}
	return exit.Usagef("there is no command %q; `lockbeat help` lists them", word)
}

// files is what holds for the files that variables name.
const files = "Passwords and the client's certificate are read anew for each connection. A file " +
	"that others than its owner can write is refused. So is one that --config names and " +
	"that belongs to another user, or that has a password in it and everybody can read. " +
	"Of other files that belong to another user, and of passwords and keys that everybody " +
	"can read, you are warned: in a container secrets look like this. Another variable " +
	"that begins with LOCKBEAT_ is refused: it is mistyped."

// environment is the help topic about variables.
func environment() *cobra.Command {
	var text strings.Builder
	text.WriteString("Every command finds Redis by these variables, or by lines VARIABLE=value " +
		"in the file that\n--config or " + connect.FileVariable + " names. A variable in the " +
		"environment comes before one in the file.\n\n")
	const width, column = 62, "\n                                   " // of the second
	for _, v := range append(deployment.Variables(), deployment.Variable{
		Name: connect.FileVariable, What: "a file with the variables above",
	}) {
		_, _ = fmt.Fprintf(&text, "  %-32s %s\n", v.Name,
			strings.ReplaceAll(out.Wrap(v.What, width), "\n", column))
	}
	text.WriteString("\n" + out.Wrap(files, 88) + "\n")
	return &cobra.Command{
		Use: "environment", Short: "The variables that say where Redis is", Long: text.String(),
	}
}
