package sqlrecord

import "strings"

// dialect is which SQL a database speaks.
type dialect bool

const (
	postgreSQL dialect = false
	sqlite     dialect = true
)

// In a statement, TABLE is the table, NOW is the database's clock in ms since
// 1970, and $1, $2, … are the arguments.
const (
	schema = `CREATE TABLE IF NOT EXISTS TABLE (
	name  BYTES  NOT NULL PRIMARY KEY, -- the lock's, as bytes
	term  BIGINT NOT NULL,             -- the highest fencing token that has begun
	fence BIGINT NOT NULL,             -- the token of who wrote the record; 0: none has
	seq   BIGINT NOT NULL,             -- its number among those of this token
	data  BYTES  NOT NULL,             -- the record
	ends  BIGINT NOT NULL              -- when it lapses, ms since 1970
);
CREATE INDEX IF NOT EXISTS INDEX_ends ON TABLE (ends);
`

	readText = `SELECT fence, seq, data, ends - NOW FROM TABLE WHERE name = $1 AND ends > NOW`

	// It locks the row: a transaction that has written the record is waited
	// for.
	prepareText = `INSERT INTO TABLE AS r (name, term, fence, seq, data, ends)
VALUES ($1, $2, 0, 0, $4, NOW + $3)
ON CONFLICT (name) DO UPDATE SET term = excluded.term WHERE r.term <= excluded.term
RETURNING fence, seq, data, ends - NOW`

	dropText = `DELETE FROM TABLE WHERE name = $1 AND ends <= NOW`

	// A record of this token is replaced only by a later one, or by itself.
	writeText = `UPDATE TABLE SET fence = $2, seq = $3, data = $4, ends = NOW + $5
WHERE name = $1 AND term = $2 AND (fence < $2 OR seq < $3 OR seq = $3 AND data = $4)`

	eraseText = `DELETE FROM TABLE WHERE name = $1 AND term = $2 AND (fence < $2 OR seq < $3)`

	// whyText says why a write has changed no row.
	whyText = `SELECT term FROM TABLE WHERE name = $1`

	// claimText makes a transaction SQLite's writer.
	claimText = `UPDATE TABLE SET term = term WHERE 1 = 0`

	lapsedText = `DELETE FROM TABLE WHERE ends <= NOW`
)

// statements are the texts above for one database and table.
type statements struct {
	schema, read, prepare, drop, write, erase, why, claim, lapsed string
}

func newStatements(d dialect, table string) statements {
	index := table[strings.LastIndexByte(table, '.')+1:]
	words := []string{
		"TABLE IF", "TABLE IF", "INDEX_", index + "_", "TABLE", table,
		"BYTES ", "BYTEA ", "NOW", "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
	}
	if d == sqlite {
		words = []string{
			"TABLE IF", "TABLE IF", "INDEX_", index + "_", "TABLE", table,
			"BYTES ", "BLOB  ", "NOW", "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
			"$", "?",
		}
	}
	text := strings.NewReplacer(words...).Replace
	return statements{
		schema: text(schema), read: text(readText), prepare: text(prepareText),
		drop: text(dropText), write: text(writeText), erase: text(eraseText), why: text(whyText),
		claim: text(claimText), lapsed: text(lapsedText),
	}
}
