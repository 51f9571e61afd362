package fencetx

import (
	"context"
	"errors"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

var errNoLock = errors.New("the context does not run under this lock: call it in the function " +
	"that runs under it (lockmw.Do, or an adapter), with the context that this was given, and " +
	"with the lock's whole name. A limit will not do, nor will a token from another process")

// locksOf are the locks of a set, in the order in which all take their rows.
func locksOf(ctx context.Context, set names.Set) ([]fence.Lock, error) {
	if err := set.Err(); err != nil {
		return nil, &fence.Error{
			Why: strings.TrimPrefix(err.Error(), "lockbeat: "), Kind: err,
		}
	}
	var locks []fence.Lock
	for w := range set.All() {
		if err := renewer.CheckName(w.Name); err != nil {
			return nil, &fence.Error{
				Why: strings.TrimPrefix(err.Error(), "lockbeat: "), Kind: err,
			}
		}
		token := lockmw.FenceOf(ctx, w.Name)
		if token == 0 || w.Limit != nil {
			return nil, &renewer.Error{
				Op: "fence a transaction with", Name: w.Name,
				Kind: renewer.ErrConfig, Err: errNoLock,
			}
		}
		locks = append(locks, fence.Lock{Name: w.Name, Token: token})
	}
	return locks, nil
}
