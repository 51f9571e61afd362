package fencetx

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// lock is one that the caller runs under.
type lock struct {
	name  string
	token int64
}

var errNoLock = errors.New("the context does not run under this lock: call it in the function " +
	"that runs under it (lockmw.Do, or an adapter), with the context that this was given, and " +
	"with the lock's whole name. A limit will not do, nor will a token from another process")

// locksOf are the locks on names, each once, in the order in which all take their rows.
func locksOf(ctx context.Context, names []string) ([]lock, error) {
	var locks []lock
	for _, given := range names {
		all := lockmw.NamesOf(given)
		if len(all) == 0 { // too many
			all = []string{given}
		}
		for _, name := range all {
			if err := renewer.CheckName(name); err != nil {
				return nil, &failure{strings.TrimPrefix(err.Error(), "lockbeat: "), err, nil}
			}
			token := lockmw.FenceOf(ctx, name)
			if token == 0 {
				return nil, &renewer.Error{
					Op: "fence a transaction with", Name: name,
					Kind: renewer.ErrConfig, Err: errNoLock,
				}
			}
			locks = append(locks, lock{name, token})
		}
	}
	if len(locks) == 0 {
		return nil, &failure{
			"give the names of the locks that protect what it writes", renewer.ErrConfig, nil,
		}
	}
	slices.SortFunc(locks, func(a, b lock) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(locks), nil
}
