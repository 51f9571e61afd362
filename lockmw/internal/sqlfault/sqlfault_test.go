package sqlfault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/sqlfault"
)

// stated is an error as drivers of PostgreSQL give it.
type stated string

func (s stated) Error() string { return "Error 1146 (42S02): no such table, says another" }

func (s stated) SQLState() string { return string(s) }

func TestWhatADatabasesErrorIs(t *testing.T) {
	t.Parallel()
	for err, fault := range map[error]sqlfault.Fault{
		nil:                                 sqlfault.Other,
		io.EOF:                              sqlfault.Other,
		stated("08006"):                     sqlfault.Other,
		stated("40001"):                     sqlfault.Conflict,
		stated("40P01"):                     sqlfault.Conflict,
		stated("55P03"):                     sqlfault.Waited,
		stated("25P02"):                     sqlfault.Aborted,
		stated("25006"):                     sqlfault.ReadOnly,
		stated("42P01"):                     sqlfault.NoTable,
		stated("42501"):                     sqlfault.NoRight,
		stated("42703"):                     sqlfault.Shape,
		stated("22003"):                     sqlfault.Shape,
		stated("42601"):                     sqlfault.Dialect,
		errors.New("Error 2013: lost link"): sqlfault.Other,
		errors.New("Error 1213 (40001): Deadlock found"):                       sqlfault.Conflict,
		errors.New("Error 1020 (HY000): Record has changed since last read"):   sqlfault.Conflict,
		errors.New("Error 1205 (HY000): Lock wait timeout exceeded"):           sqlfault.Waited,
		errors.New("Error 1792 (25006): in a READ ONLY transaction"):           sqlfault.ReadOnly,
		errors.New("Error 1290 (HY000): the --read-only option"):               sqlfault.ReadOnly,
		errors.New("Error 1146: Table 'a.b' doesn't exist"):                    sqlfault.NoTable,
		errors.New("Error 1142 (42000): INSERT command denied"):                sqlfault.NoRight,
		errors.New("Error 1054 (42S22): Unknown column"):                       sqlfault.Shape,
		errors.New("Error 1264 (22003): Out of range value for column"):        sqlfault.Shape,
		errors.New("database is locked (5) (SQLITE_BUSY)"):                     sqlfault.Busy,
		errors.New("attempt to write a readonly database (8)"):                 sqlfault.ReadOnly,
		errors.New("SQL logic error: no such table: a (1)"):                    sqlfault.NoTable,
		errors.New("table a has no column named b"):                            sqlfault.Shape,
		errors.New("Error 1064 (42000): You have an error in your SQL syntax"): sqlfault.Dialect,
		errors.New(`near "DUPLICATE": syntax error`):                           sqlfault.Dialect,
		errors.New(`unrecognized token: ":"`):                                  sqlfault.Dialect,
	} {
		require.Equal(t, fault, sqlfault.Of(err), err)
		if err != nil {
			require.Equal(t, fault, sqlfault.Of(fmt.Errorf("wrapped: %w", err)), err)
		}
		require.Equal(t, fault == sqlfault.ReadOnly || fault == sqlfault.NoTable ||
			fault == sqlfault.NoRight || fault == sqlfault.Shape ||
			fault == sqlfault.Dialect, fault.Permanent(), err)
	}
}
