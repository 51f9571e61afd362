package fence

import (
	"context"
	"slices"
	"strings"

	"github.com/lockbeat/lockbeat/renewer"
)

// Statements are told apart by their words. What is in doubt counts as one that
// writes: it then has a fence, and takes longer. What words do not show:
//
//   - what a function, operator, cast, view, rule or trigger of the database's does; what
//     looks like a column may be a function, too (PostgreSQL), and functions of SQLite that
//     the program has registered count as reading;
//   - whether a procedure of MySQL commits: see [Dialect.IsOpen];
//   - modes in which a backslash or a quote means something else;
//   - what a statement does that was prepared under a name before.

// Kind is what a text does to transactions. That of several statements is their
// highest.
type Kind int

// The kinds.
const (
	Reads   Kind = iota // or sets something in the session
	Writes              // or may write
	Commits             // or may, with MySQL, the transaction it is in, which then holds nothing
	Ends                // a transaction
	Begins              // one; or begins one and ends it
)

// KindOf is the kind of a text, and whether it is several statements.
func (d Dialect) KindOf(query string) (kind Kind, several bool) {
	s := scanner{Dialect: d, rest: query, single: !strings.Contains(query, ";")}
	first := s.statement()
	kind, calls := d.kind(first), d.calls(first)
	for !s.single {
		more := s.statement()
		if more == nil {
			break
		}
		kind, several, calls = max(kind, d.kind(more)), true, calls || d.calls(more)
	}
	// What a procedure may do, and nobody looks behind it; and what follows if a
	// server does not run such a comment, which may hide a quote.
	if several && calls || d == MySQL && !s.single && conditional(query) {
		kind, several = max(kind, Commits), true
	}
	return kind, several
}

// conditional reports whether some servers run a comment of a text.
func conditional(query string) bool {
	return strings.Contains(query, runs) || strings.Contains(query, "/*M!")
}

func (d Dialect) calls(words []string) bool {
	return d == MySQL && len(words) > 0 && words[0] == "call"
}

// reading are first words of statements that read, or set something in the
// session.
var reading = [...][]string{
	PostgreSQL: strings.Fields("deallocate discard listen reset select set show table unlisten " +
		"values with"),
	MySQL:  strings.Fields("select set show table use values with"),
	SQLite: strings.Fields("pragma select values with"),
}

// sets are pragmas that write no rows. Some do nothing in a transaction.
var sets = strings.Fields(`busy_timeout cache_size database_list foreign_key_list foreign_keys
	index_info index_list journal_mode locking_mode mmap_size synchronous table_info table_list
	table_xinfo temp_store`)

// What surely does not commit MySQL's transaction begins with these. It is a
// list of its own since there is no whole one of what does.
var (
	stays = strings.Fields(`call delete desc describe do explain insert replace rollback select
		set show table update use values with`)
	stayPairs = []string{"create temporary", "drop temporary", "load data", "load xml"}
)

// kind is that of one statement.
func (d Dialect) kind(words []string) Kind {
	var w [5]string
	copy(w[:], words)
	switch first := w[0]; first {
	case "begin", "savepoint": // SQLite begins a transaction with a savepoint
		return Begins
	case "start":
		if w[1] == "transaction" {
			return Begins
		}
	case "lock": // tables, until the next transaction begins
		if d == MySQL {
			return Begins
		}
	case "abort", "commit", "end", "prepare", "release", "rollback":
		chain := slices.Index(words, "chain")
		switch {
		case first == "prepare" && w[1] != "transaction", w[1] == "prepared":
		case first == "rollback" && (w[1] == "to" || w[2] == "to"): // a savepoint
		case chain > 0 && words[chain-1] == "and":
			return Begins
		default:
			return Ends
		}
	case "pragma":
		if w[2] == "." {
			w[1] = w[3]
		}
		if !slices.Contains(sets, w[1]) {
			return Writes
		}
	case "set":
		switch {
		case d != MySQL:
		case slices.ContainsFunc(words, named("autocommit")):
			return Begins
		case slices.Contains([]string{"default", "password", "statement"}, w[1]):
			return Commits
		}
	}
	if slices.Contains(reading[d], w[0]) && d.reads(words) {
		return Reads
	}
	pair := w[0] + " " + w[1]
	if pair == "create or" {
		pair = w[0] + " " + w[3] // CREATE OR REPLACE
	}
	if d == MySQL && !slices.Contains(stays, w[0]) && !slices.Contains(stayPairs, pair) {
		return Commits
	}
	return Writes
}

// named finds a name, in quotes or not.
func named(name string) func(word string) bool {
	return func(word string) bool { return strings.EqualFold(strings.Trim(word, "\"`"), name) }
}

// writing are words of statements that write, wherever they are.
var writing = append(strings.Fields("delete insert into merge nextval uescape update"), doubt, runs)

// harmless are words that may stand before a parenthesis: functions that write nothing,
// types, and what is no function.
var harmless = strings.Fields(`
	abs all and any array_agg array_length as avg between by case cast ceil char
	char_length coalesce concat connection_id count current_database current_schema
	current_setting current_timestamp database date date_trunc decimal dense_rank distinct
	else encode except exists extract filter first_value floor found_rows from greatest
	group_concat having ifnull in intersect interval is join json_agg json_build_object
	jsonb_agg jsonb_build_object lag last_insert_id last_value lateral lead least left
	length like limit lower ltrim max min mod not now nullif numeric on or over partition
	pg_backend_pid position rank replace right round row row_count row_number rtrim select
	some strftime string_agg substr substring sum then to_char to_json to_timestamp trim
	union unnest upper using values varchar version when where`)

// reads reports whether a statement surely writes nothing.
func (d Dialect) reads(words []string) bool {
	before, last := "", ""
	for _, w := range words {
		isName := last != "" && (inWord(last[0]) || last[0] == '"' || last[0] == '`')
		switch {
		case slices.Contains(writing, w), w == "value" && last == "next",
			d != SQLite && w == "(" && isName &&
				(before == "." || !slices.Contains(harmless, last)):
			return false
		}
		before, last = last, w
	}
	return len(words) > 1
}

// errText is of texts behind which a transaction would not carry the fence.
var errText = &Error{"under a lock begin transactions by BeginTx or Begin of the database, the " +
	"pool or a connection, none in a batch; end them by Commit or Rollback; and send each other " +
	"statement by itself: what follows one that begins or ends a transaction, or locks tables, " +
	"would have no fence", renewer.ErrConfig, nil}

// Outside is the fence that a text in no transaction has to have one of its own
// for, nil if none, and the text's kind.
func (g *Guard) Outside(ctx context.Context, query string) (*Fence, Kind, error) {
	if now, slot := of(ctx, g.Dialect, g.Counts); now == nil && slot == nil && !g.Require &&
		g.Dialect.isPlain(query) {
		return nil, Writes, nil // or reads: it does not matter
	}
	kind, several := g.Dialect.KindOf(query)
	if kind == Reads || kind == Ends && !several {
		return nil, kind, nil
	}
	f, err := g.Of(ctx)
	switch {
	case f == nil:
		return nil, kind, err
	case kind == Begins, several && kind != Writes:
		return nil, kind, errText
	case g.Refuse:
		return nil, kind, &Error{"begin one: a statement outside of a transaction is refused " +
			"under a lock (fencedb.RefuseOutside)", renewer.ErrConfig, nil}
	}
	return f, kind, nil
}

// InTx is the error of a text in a transaction that has the fence f, or none:
// one after which the transaction would not carry it any more, or that ends one
// without a fence and goes on under a lock. One that is read-only has none, but
// would have f if a text made another one of it.
func (g *Guard) InTx(ctx context.Context, f *Fence, readOnly bool, query string) error {
	if !readOnly {
		g.Inside(ctx, f)
	}
	if g.Dialect.isPlain(query) && (f == nil || !readOnly || g.Dialect != SQLite) {
		return nil
	}
	if f == nil {
		if now, _ := of(ctx, g.Dialect, g.Counts); now == nil {
			return nil
		}
	}
	kind, several := g.Dialect.KindOf(query)
	if f == nil && !several {
		return nil
	}
	word := g.Dialect.firstWord(query)
	switch {
	case kind == Commits:
		return &Error{"run this statement outside of the transaction: MySQL would or may " +
			"commit that, and what follows would have no fence", renewer.ErrConfig, nil}
	case kind > Writes && (several || word != "savepoint" && word != "release"):
		return errText
	case f != nil && readOnly && g.Dialect.writes(query, kind, several):
		return &Error{"begin it without sql.TxOptions.ReadOnly: a transaction that is read-only " +
			"has no fence", renewer.ErrConfig, nil}
	}
	return nil
}

// writes reports whether a text of this kind may make a read-only transaction
// another one. Functions can't: PostgreSQL refuses that in a query. Drivers of
// SQLite do not heed that option.
func (d Dialect) writes(query string, kind Kind, several bool) bool {
	if d == SQLite {
		return kind == Writes
	}
	if first := d.firstWord(query); first != "set" && first != "reset" && !several {
		return false
	}
	s := scanner{Dialect: d, rest: query}
	for w := s.next(); w != ""; w = s.next() {
		if w == doubt || w == "write" || named("transaction_read_only")(w) {
			return true
		}
	}
	return false
}
