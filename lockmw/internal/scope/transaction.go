package scope

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/intx"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// checkTransaction reports a lock that is to be waited for inside a transaction of package
// sqlrecord: while it is waited for, nobody else has the transaction's connection and rows, not
// even the holder of the lock, who may need them to come to its end. The keeper's observer is
// told, once for each recorder. The call goes on: it may get its lock at once. One that does
// not wait keeps nothing from anybody.
func checkTransaction(
	ctx context.Context, k *renewer.Keeper, w names.Want, opt option.Settings,
) {
	if opt.Contention != option.Waits {
		return
	}
	first := intx.Of(ctx)
	if first == nil {
		return
	}
	first.Do(func() {
		k.Observer().Fault(renewer.Fault{Doing: "wait for a lock", Name: w.Name, Err: fmt.Errorf(
			"%w: the operation %q asks for a lock inside a transaction of sqlrecord. While it "+
				"waits, it keeps a connection of the database, and the rows that it has written, "+
				"from the lock's holder and from all others; and the lock is free before the "+
				"transaction is committed. Name the lock by idempotent.Config.Lock, by "+
				"grpcmw.IdempotentConfig.Locks or by once.Under, which take it before the "+
				"transaction begins; or take it further out", renewer.ErrConfig, opt.Operation)})
	})
}
