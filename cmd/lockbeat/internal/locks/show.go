package locks

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// showing are the flags of show.
type showing struct {
	hash   string
	limit  bool
	secret string
	look   time.Duration
	json   bool
}

// defaultLook is a little more than a heartbeat of the default TTL.
const defaultLook = 6 * time.Second

const showHelp = `Show who has a lock or a limit, and who waits for it: both, if
both have this name.

It looks until it has seen that the lease is renewed, for --look at most. A
lease that is not renewed belongs to a process that is dead, stopped or cut off,
and lapses soon.

Exit status 66: no owner has it. 69: the store does not answer. 77: it refuses.`

func show() *cobra.Command {
	var s showing
	cmd := &cobra.Command{
		Use:     "show NAME | show --hash HASH",
		Short:   "Show who has a lock or a limit, and who waits for it",
		Long:    showHelp,
		Example: "  lockbeat show order:42\n  lockbeat show --hash 1f3b8a90c2d4e5f6",
		Args:    atMostOne,
		RunE:    s.run,

		ValidArgsFunction: completeNames,
	}
	f := cmd.Flags()
	f.StringVar(&s.hash, "hash", "", "the `HASH` that logs and spans show of it; it must be held")
	f.BoolVar(&s.limit, "limit", false, "only the limit of this name")
	f.StringVar(&s.secret, "secret-file", "", "a `file` with the secret of hashes, if any")
	f.DurationVar(&s.look, "look", defaultLook, "look so long whether it is renewed; 0: do not")
	f.BoolVar(&s.json, "json", false, "print JSON")
	return cmd
}

func (s *showing) run(cmd *cobra.Command, args []string) error {
	if (len(args) == 1) == (s.hash != "") {
		return exit.Usagef("name a lock, or its --hash; `lockbeat ls` lists them")
	}
	if s.look < 0 {
		return exit.Usagef("--look: is negative; take 0 to not look")
	}
	secret, err := ReadSecret(s.secret)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	locks, end, err := open(ctx)
	if err != nil {
		return failed(err)
	}
	defer end()
	found, err := s.find(ctx, locks, args, secret)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(ctx, cmd.OutOrStdout(), locks, found, secret)
	}
	for i := range found {
		if i > 0 {
			_, _ = fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := s.print(ctx, cmd.OutOrStdout(), locks, &found[i], secret); err != nil {
			return err
		}
	}
	return nil
}

// find reads what is asked for: the lock and the limit of a name or of a hash,
// as far as they are not free.
func (s *showing) find(
	ctx context.Context, locks renewer.Store, args []string, secret []byte,
) (found []store.Lock, err error) {
	var name string
	if len(args) == 1 {
		if name, err = named(ctx, locks, args[0]); err != nil {
			return nil, err
		}
	} else {
		named, err := read(ctx, locks, inspect.Hash(strings.ToLower(s.hash), secret))
		if err != nil {
			return nil, err
		}
		if len(named) == 0 {
			return nil, &exit.Error{Status: exit.Free, Err: fmt.Errorf("no lock that is held has "+
				"the hash %s; if logs use renewer.HashNames, give its secret by --secret-file",
				out.Safe(s.hash))}
		}
		name = named[0].Name
	}
	for _, limit := range []bool{false, true} {
		if s.limit && !limit {
			continue
		}
		lock, err := inspect.Show(ctx, locks, name, limit)
		if err != nil {
			return nil, failed(err)
		}
		if !isFree(&lock) {
			found = append(found, lock)
		}
	}
	if len(found) == 0 {
		return nil, free(name, s.limit)
	}
	return found, nil
}

// free is the error for what no owner has.
func free(name string, limit bool) error {
	what := "lock and no limit"
	if limit {
		what = "limit"
	}
	return &exit.Error{Status: exit.Free, Err: fmt.Errorf("no %s of the name %s is held: it is "+
		"free, or was never locked under this prefix", what, out.Safe(name))}
}

// mostSecret bounds a secret, in bytes, so that a wrong name, such as a
// device's, ends.
const mostSecret = 4096

// ReadSecret reads the secret of hashes from the file that --secret-file names;
// nil if it is "".
func ReadSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, exit.Usagef("--secret-file: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, mostSecret))
	if err != nil {
		return nil, exit.Usagef("--secret-file: %w", err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return nil, exit.Usagef("--secret-file: %s is empty", path)
	}
	return []byte(secret), nil
}

func (s *showing) printJSON(
	ctx context.Context, w io.Writer, locks renewer.Store, found []store.Lock, secret []byte,
) error {
	d := document{Total: len(found)}
	for i := range found {
		lock := jsonOf(&found[i], secret)
		seen, err := s.lookTwice(ctx, locks, &found[i])
		if err != nil {
			return err
		}
		for n := range lock.Slots {
			if renewed, ok := seen[lock.Slots[n].Token]; ok {
				lock.Slots[n].Renewed = &renewed.seen
			}
		}
		d.Locks = append(d.Locks, lock)
	}
	return out.JSON(w, d)
}
