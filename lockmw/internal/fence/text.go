package fence

import (
	"fmt"
	"strconv"
	"strings"
)

// In the texts names are hexadecimal and tokens are digits, so that they need
// no arguments: a text is then one round trip with any driver, and may have
// several statements.

// postgresRaise makes one row's token at least the lock's. At READ COMMITTED
// whatever the default is: above it, a raise that has waited would fail. A row
// that is high enough is not even locked: this holder's own transactions may
// share it. The row is on the disk before its lease reads anything; the claim,
// which is written before the row, gets there with it, and is not waited for by
// itself.
const postgresRaise = "BEGIN ISOLATION LEVEL READ COMMITTED; %[4]sINSERT INTO " +
	"lockbeat_fences AS f (name, claim, token) SELECT v.* FROM (VALUES (decode('%[1]x', " +
	"'hex'), %[2]t, %[3]d::bigint)) AS v (name, claim, token) WHERE NOT EXISTS (SELECT FROM " +
	"lockbeat_fences e WHERE e.name = v.name AND e.claim = v.claim AND e.token >= v.token) " +
	"ON CONFLICT (name, claim) DO UPDATE SET token = excluded.token WHERE f.token < " +
	"excluded.token; COMMIT; "

// PostgresCheck is Check for one lock, with arguments, so that a driver keeps
// it prepared: name and token. It fails unless claim and row have the token, so
// that what is sent behind it is not done. A transaction whose claim is gone
// does not even share the row. (What is cast depends on the row: a constant
// would fail when it is planned. OFFSET 0 keeps the order of the questions.)
const PostgresCheck = "SELECT CASE WHEN t = $2::bigint THEN 1 ELSE ('lock_hash=' || " +
	"left(encode(sha256($1), 'hex'), 16) || ' has the token ' || coalesce(greatest(c, t), " +
	"0))::int END FROM (SELECT c, CASE WHEN c = $2 THEN (SELECT token FROM lockbeat_fences " +
	"WHERE name = $1 AND NOT claim FOR SHARE) END AS t FROM (SELECT (SELECT token FROM " +
	"lockbeat_fences WHERE name = $1::bytea AND claim) AS c OFFSET 0) s OFFSET 0) s"

// MySQLEngine is a question for the table's engine, in the second column:
// others than InnoDB have no locks on rows.
const MySQLEngine = "SHOW TABLE STATUS LIKE 'lockbeat_fences'"

// Raise has the texts that make the rows' tokens the locks', each to be run by
// itself, in no transaction; with SQLite, which lets one write at a time, in
// the transaction before Check.
func (f *Fence) Raise() (texts []string) {
	var b strings.Builder
	if f.Dialect == PostgreSQL {
		for _, claim := range []bool{true, false} { // all claims before the first wait
			for _, l := range f.Locks {
				wait := ""
				if claim {
					wait = "SET LOCAL synchronous_commit TO off; "
				}
				fmt.Fprintf(&b, postgresRaise, l.Name, claim, l.Token, wait)
			}
		}
		return []string{b.String()}
	}
	insert := "INSERT INTO lockbeat_fences (name, token) VALUES (x'%x', %d)" +
		" ON DUPLICATE KEY UPDATE token = GREATEST(token, %[2]d)"
	if f.Dialect == SQLite { // OR ABORT, the default, is no other database's SQL
		insert = "INSERT OR ABORT INTO lockbeat_fences (name, token) VALUES (x'%x', %d)" +
			" ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE token < excluded.token"
	}
	for _, l := range f.Locks {
		texts = append(texts, fmt.Sprintf(insert, l.Name, l.Token))
	}
	return texts
}

// Check is the text that reads and shares the rows until the transaction ends.
// With PostgreSQL it fails unless they have the locks' tokens; else Verdict
// says what its answer means.
func (f *Fence) Check() string {
	if f.Dialect != PostgreSQL {
		return f.Read() + [...]string{MySQL: " LOCK IN SHARE MODE", SQLite: ""}[f.Dialect]
	}
	var b strings.Builder
	for _, l := range f.Locks {
		name := fmt.Sprintf("decode('%x', 'hex')", l.Name)
		token := fmt.Sprintf("%d::bigint", l.Token)
		b.WriteString(strings.NewReplacer("$1::bytea", name, "$1", name,
			"$2::bigint", token, "$2", token).Replace(PostgresCheck))
		b.WriteString("; ")
	}
	return b.String()
}

// Share is Check for PostgreSQL as a text that is quickly planned. It has
// shared the rows if it has as many as there are locks; else Check says why
// not.
func (f *Fence) Share() string {
	pairs := make([]string, len(f.Locks))
	for i, l := range f.Locks {
		pairs[i] = fmt.Sprintf("(decode('%x', 'hex'), %d)", l.Name, l.Token)
	}
	in := " FROM lockbeat_fences WHERE (name, token) IN (" + strings.Join(pairs, ", ") + ") AND "
	return "SELECT" + in + "NOT claim AND (SELECT count(*)" + in + "claim) = " +
		strconv.Itoa(len(f.Locks)) + " ORDER BY name FOR SHARE"
}

// Read is the text that reads the rows, with MySQL and SQLite, and shares none.
// PostgreSQL does not know the backquotes.
func (f *Fence) Read() string {
	names := make([]string, len(f.Locks))
	for i, l := range f.Locks {
		names[i] = fmt.Sprintf("x'%x'", l.Name)
	}
	return "SELECT name, token FROM `lockbeat_fences` WHERE name IN (" +
		strings.Join(names, ", ") + ") ORDER BY name"
}

// Verdict is what the rows of Check say: nil, a loss, or errRaise.
func (f *Fence) Verdict(rows [][]string) error {
	low, err := f.Low(rows)
	if low != nil {
		return errRaise
	}
	return err
}

// Low is the part of f whose rows, of Read, are lower or missing; nil if none
// are. A row that is higher is a loss.
func (f *Fence) Low(rows [][]string) (low *Fence, err error) {
	tokens := make(map[string]string, len(rows))
	for _, r := range rows {
		if _, twice := tokens[r[0]]; twice {
			return nil, f.Dialect.Table("a name has several rows, since it is no key")
		}
		tokens[r[0]] = r[1]
	}
	var locks []Lock
	for _, l := range f.Locks {
		text, found := tokens[l.Name]
		token, err := strconv.ParseInt(text, 10, 64)
		switch {
		case !found, err == nil && token < l.Token:
			locks = append(locks, l)
		case err != nil:
			return nil, err
		case token > l.Token:
			return nil, l.Lost("the row's token is "+text, nil)
		}
	}
	if locks == nil {
		return nil, nil //nolint:nilnil // none is low
	}
	return &Fence{f.Dialect, locks}, nil
}
