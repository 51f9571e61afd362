package sqlrecord_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
)

type order struct {
	ID     string
	Amount int64
}

// The charge and the record that it is done are in one transaction, so that an
// order is charged once, whenever a process dies.
func ExampleTx() {
	charge := func(
		ctx context.Context, keeper *renewer.Keeper, db *sql.DB, o order,
	) (receipt int64, err error) {
		recorder, err := sqlrecord.PostgreSQL(db)
		if err != nil {
			return 0, err
		}
		return once.Do(ctx, keeper, lockmw.Key("charge", o.ID),
			func(ctx context.Context) (receipt int64, err error) {
				err = sqlrecord.Tx(ctx).QueryRowContext(ctx,
					"INSERT INTO charges (order_id, amount) VALUES ($1, $2) RETURNING id",
					o.ID, o.Amount).Scan(&receipt)
				return receipt, err
			}, once.RecordIn(recorder))
	}
	_ = charge
}

// The table that a recorder needs, to be made with the program's other
// migrations.
func ExampleRecorder_Schema() {
	db := sql.OpenDB(nil)
	defer func() { _ = db.Close() }()
	recorder, err := sqlrecord.PostgreSQL(db)
	fmt.Println(err)
	fmt.Print(recorder.Schema())
	// Output:
	// <nil>
	// CREATE TABLE IF NOT EXISTS lockbeat_once (
	// 	name  BYTEA  NOT NULL PRIMARY KEY, -- the lock's, as bytes
	// 	term  BIGINT NOT NULL,             -- the highest fencing token that has begun
	// 	fence BIGINT NOT NULL,             -- the token of who wrote the record; 0: none has
	// 	seq   BIGINT NOT NULL,             -- its number among those of this token
	// 	data  BYTEA  NOT NULL,             -- the record
	// 	ends  BIGINT NOT NULL              -- when it lapses, ms since 1970
	// );
	// CREATE INDEX IF NOT EXISTS lockbeat_once_ends ON lockbeat_once (ends);
}
