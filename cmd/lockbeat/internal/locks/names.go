package locks

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
)

// named is the name that an argument means: what ls prints of it if it is
// quoted there, with the quotes or without, unless something has the name as it
// stands.
func named(ctx context.Context, locks renewer.Store, arg string) (string, error) {
	name, ok := unquoted(arg)
	if !ok {
		return arg, nil
	}
	for _, one := range []string{arg, name} {
		for _, limit := range []bool{false, true} {
			lock, err := inspect.Show(ctx, locks, one, limit)
			if err != nil {
				return "", failed(err)
			}
			if !isFree(&lock) {
				return one, nil
			}
		}
	}
	return arg, nil
}

// unquoted undoes [out.Safe]; ok is false for a text that it shows as it is.
func unquoted(text string) (name string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		text = `"` + text + `"`
	}
	name, err := strconv.Unquote(text)
	return name, err == nil && out.Safe(name) == text
}

const (
	// mostCompleted bounds how many names a shell offers.
	mostCompleted = 100
	// completeTimeout is how long a person who has pressed a key waits at most.
	completeTimeout = time.Second
)

// completeNames offers names to the shell, those that need no quotes. It says
// nothing of errors.
func completeNames(
	cmd *cobra.Command, args []string, begun string,
) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	cmd.SetErr(io.Discard)
	ctx = connect.With(ctx, connect.Source{
		File: cmd.Flag("config").Value.String(), Warn: func(string) {},
	})
	locks, end, err := open(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer end()
	offered := make(map[string]struct{})
	want := func(name string, _ bool) bool {
		return strings.HasPrefix(name, begun) && out.Safe(name) == name
	}
	for lock, err := range inspect.List(ctx, locks, want) {
		if err != nil || len(offered) == mostCompleted {
			break
		}
		offered[lock.Name] = struct{}{}
	}
	for name := range offered {
		names = append(names, name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
