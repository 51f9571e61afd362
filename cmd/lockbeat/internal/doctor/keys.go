package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// keys counts what is held under the prefix, and what other programs have
// written there.
func keys(ctx context.Context, d *connect.Deployment) finding {
	const check = "keys"
	store, err := redisstore.New(d.Client, redisstore.Prefix(d.Prefix),
		redisstore.ToInspect())
	if err != nil {
		return unreadable(check, err)
	}
	defer store.Close()
	locks, limits, foreign := 0, 0, 0
	for lock, err := range inspect.List(ctx, store, nil) {
		switch {
		case err != nil:
			return unreadable(check, err)
		case lock.Foreign:
			foreign++
		case lock.Limit:
			limits++
		default:
			locks++
		}
	}
	f := finding{Check: check, Found: fmt.Sprintf("%s locks %d, limits %d", d.Prefix,
		locks, limits)}
	if foreign > 0 {
		f.Status = warning
		f.Found += fmt.Sprintf(", keys of another program %d", foreign)
		f.Change = "`lockbeat ls` shows them as foreign: delete them, and give that program " +
			"another prefix"
	}
	return f
}

// unreadable is the finding for keys that could not be read.
func unreadable(check string, err error) finding {
	denied := errors.Is(err, renewer.ErrRejected) && strings.Contains(err.Error(), "NOPERM")
	if denied {
		return finding{
			Check: check, Status: unknown, Found: "you have no right to look",
			Change: "to see them, grant the rights to look",
		}
	}
	return finding{
		Check: check, Status: failure, Found: strings.TrimPrefix(err.Error(), "lockbeat: "),
		Change: "see the lines above; `lockbeat ls` asks the same",
	}
}
