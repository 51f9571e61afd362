package locks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// listing are the flags of ls.
type listing struct {
	json  bool
	sort  string
	limit int
	older time.Duration
}

const listHelp = `List the locks and limits that are held, the oldest first.

In PATTERN * stands for any text and ? for one byte; quote it for the shell.
WAITING counts processes and tasks in line, and callers in the holder's process,
as that has told with its last heartbeat. STATE is broken: a lease was broken,
and its operation has not returned yet; turn: it is kept for a waiter; free:
tasks wait, and none has come yet; or foreign: another program has written its
key. Of a limit, AGE is that of the oldest slot, and TTL that of the next one to
lapse. A terminal shows the sum of all above the table.

--json prints one document, as show does. Of a limit there are several slots:

  {"locks": [{"name": "order:42", "hash": "da68380de022bac7", "limit": false,
    "state": "held", "slots": [{"node": "web-1", "pid": 4711,
      "operation": "charge", "token": 1795692386097520,
      "since": "2026-11-26T11:26:26.09752Z", "age_seconds": 13.15,
      "ttl_seconds": 14.849, "callers": 0}],
    "turns": 0, "waiting": 1, "processes": 1, "callers": 0, "tasks": 0,
    "at": "2026-11-26T11:26:39.252505Z"}],
   "total": 1, "cut": false}

waiting is the sum of processes, callers and tasks. A name that is no UTF-8 is in
name_bytes too, in base64. A slot that was broken has "broken": {"by", "why",
"force", "replaced", "told"}; show adds "renewed" to slots, and "places".

Exit status 4: there are more than --limit. 69: the store does not answer. 77:
it refuses.`

func list() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:     "ls [PATTERN]",
		Short:   "List the locks and limits that are held",
		Long:    listHelp,
		Example: "  lockbeat ls 'order:*' --older 5m\n  lockbeat ls --sort waiters --limit 20",
		Args:    atMostOne,
		RunE:    l.run,
	}
	f := cmd.Flags()
	f.BoolVar(&l.json, "json", false, "print JSON")
	f.StringVar(&l.sort, "sort", "age", "by age, name, ttl or waiters")
	f.IntVar(&l.limit, "limit", 0, "print `N` at most (default all)")
	f.DurationVar(&l.older, "older", 0, "only what is held for longer than this, such as 5m")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(
		slices.Sorted(maps.Keys(orders)), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (l *listing) run(cmd *cobra.Command, args []string) error {
	order, ok := orders[l.sort]
	switch {
	case !ok:
		return exit.Usagef("--sort: there is no order %q; take %s", l.sort,
			strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
	case l.limit < 0:
		return exit.Usagef("--limit: is negative; leave it out for all")
	case l.older < 0:
		return exit.Usagef("--older: is negative; take a time such as 5m")
	}
	locks, end, err := open(cmd.Context())
	if err != nil {
		return failed(err)
	}
	defer end()
	// Behind an error what was read is printed: one server of a cluster may be
	// away.
	all, err := read(cmd.Context(), locks, pattern(args))
	if l.older > 0 {
		all = slices.DeleteFunc(all, func(lock store.Lock) bool { return ageOf(&lock) < l.older })
	}
	all = sortBy(all, order)
	parts := sum(all)
	total := len(all)
	if l.limit > 0 && total > l.limit {
		all = all[:l.limit]
	}
	if err != nil && total == 0 {
		return err
	}
	if printed := l.print(cmd, all, total, parts); printed != nil {
		return printed
	}
	if err == nil && len(all) < total {
		err = &exit.Error{Status: exit.Cut}
		if !l.json {
			err = &exit.Error{Status: exit.Cut, Err: fmt.Errorf(
				"%d of %d: --limit has cut the list", len(all), total)}
		}
	}
	return err
}

func (l *listing) print(cmd *cobra.Command, all []store.Lock, total int, parts []string) error {
	w := cmd.OutOrStdout()
	if l.json {
		d := document{Locks: make([]lockJSON, len(all)), Total: total, Cut: len(all) < total}
		for i := range all {
			d.Locks[i] = jsonOf(&all[i], nil)
		}
		return out.JSON(w, d)
	}
	if total == 0 {
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), "lockbeat: no such lock is held")
		return err
	}
	columns := out.Columns(w)
	if out.IsTerminal(w) {
		if err := write(w, glance("", parts, "", columns)+"\n"); err != nil {
			return err
		}
	}
	return table(all).Write(w, columns)
}
