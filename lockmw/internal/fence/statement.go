package fence

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/lockbeat/lockbeat/renewer"
)

// Statements are told apart by their words alone. What is in doubt counts as one that
// writes: it then has a fence, and takes longer.

// Kind is what a statement does to transactions.
type Kind int

// The kinds.
const (
	Writes  Kind = iota // or may write
	Reads               // or sets something in the session
	Begins              // a transaction
	Ends                // one
	Commits             // one that it is in, with MySQL, before it does its work
)

// KindOf is the kind of a statement.
func (d Dialect) KindOf(query string) Kind {
	word, rest := firstWord(query)
	switch word {
	case "begin", "start", "savepoint": // SQLite begins a transaction with a savepoint
		return Begins
	case "commit", "end", "abort", "release":
		return Ends
	case "rollback":
		if strings.Contains(strings.ToLower(rest), "to ") {
			return Writes // goes back to a savepoint
		}
		return Ends
	case "alter", "create", "drop", "rename", "truncate", "grant", "revoke", "lock", "unlock",
		"analyze", "optimize", "repair", "flush", "install", "uninstall", "xa":
		if second, _ := firstWord(rest); d == MySQL && second != "temporary" {
			return Commits
		}
	case "listen", "unlisten", "discard", "deallocate", "reset", "use", "pragma", "show":
		return Reads
	case "set":
		if d == MySQL && strings.Contains(strings.ToLower(rest), "autocommit") {
			return Commits
		}
		if !strings.Contains(rest, "(") {
			return Reads
		}
	case "select", "with", "values", "table":
		if reads(word + " " + rest) {
			return Reads
		}
	}
	return Writes
}

// firstWord is a statement's first word, in lower case, without comments before it.
func firstWord(query string) (word, rest string) {
	for {
		query = strings.TrimLeftFunc(query, func(r rune) bool {
			return unicode.IsSpace(r) || r == ';' || r == '('
		})
		var found bool
		switch {
		case strings.HasPrefix(query, "--"), strings.HasPrefix(query, "#"):
			_, query, found = strings.Cut(query, "\n")
		case strings.HasPrefix(query, "/*") && !strings.HasPrefix(query, "/*!") &&
			!strings.HasPrefix(query, "/*M!"): // which MySQL and MariaDB run
			_, query, found = strings.Cut(query[2:], "*/")
		default:
			end := 0
			for end < len(query) && inWord(query[end]) {
				end++
			}
			return strings.ToLower(query[:end]), query[end:]
		}
		if !found {
			return "", ""
		}
	}
}

func inWord(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// writing are words of statements that write, wherever they are.
var writing = []string{"insert", "update", "delete", "merge", "into", "procedure"}

// harmless are words that may stand before a parenthesis: functions that write nothing,
// types, and what is no function. Of another function one can't know.
var harmless = strings.Fields(`
	abs all and any array_agg array_length as avg between by case cast ceil char char_length
	coalesce concat connection_id count current_database current_schema current_setting
	current_timestamp database date date_trunc decimal dense_rank distinct else encode
	exists extract filter first_value floor from greatest group_concat having ifnull in
	interval is join json_agg json_build_object jsonb_agg jsonb_build_object lag last_value
	lateral lead least left length like limit lower ltrim max min mod not now nullif numeric
	on or over partition pg_backend_pid position rank replace right round row row_number
	rtrim select some strftime string_agg substr substring sum then to_char to_json
	to_timestamp trim union unnest upper using values varchar version when where`)

// reads reports whether a query surely writes nothing.
func reads(query string) bool {
	word := "" // the one before, for a parenthesis
	for i := 0; i < len(query); {
		c := query[i]
		switch {
		case c == '\'' || c == '"' || c == '`':
			end := strings.IndexByte(query[i+1:], c)
			if end < 0 || strings.Contains(query[i:i+1+end], `\`) {
				return false // one does not know where it ends
			}
			if word = "?"; c == '\'' {
				word = ""
			}
			i += end + 2
			continue
		case strings.IndexByte(`\#[`, c) >= 0, strings.HasPrefix(query[i:], "--"),
			strings.HasPrefix(query[i:], "/*"),
			c == ';' && strings.Trim(query[i:], "; \t\r\n") != "",
			c == '$' && strings.TrimLeft(query[i+1:], "0123456789") == query[i+1:]:
			return false // a comment, one more statement, or a text in other quotes
		case inWord(c):
			end := i
			for end < len(query) && inWord(query[end]) {
				end++
			}
			word = strings.ToLower(query[i:end])
			if slices.Contains(writing, word) {
				return false
			}
			i = end
			continue
		case c == '(':
			if word != "" && !slices.Contains(harmless, word) {
				return false
			}
			word = ""
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			word = ""
		}
		i++
	}
	return true
}

// Outside is the fence that a statement in no transaction has to have one of its own for,
// nil if none, and the statement's kind.
func (g *Guard) Outside(ctx context.Context, query string) (*Fence, Kind, error) {
	kind := g.Dialect.KindOf(query)
	if kind == Reads || kind == Ends {
		return nil, kind, nil
	}
	f, err := g.Of(ctx)
	switch {
	case f == nil:
		return nil, kind, err
	case kind == Begins:
		return nil, kind, &Error{"begin transactions by BeginTx or Begin under a lock: one " +
			"that a statement begins carries no fence", renewer.ErrConfig, nil}
	case g.Refuse:
		return nil, kind, &Error{"begin one: a statement outside of a transaction is refused " +
			"under a lock (fencedb.RefuseOutside)", renewer.ErrConfig, nil}
	}
	return f, kind, nil
}

// InReads is the error of a statement in a transaction that was begun read-only, without
// a fence: one that makes another one of it or, since drivers of SQLite do not heed that
// option, one that may write.
func (g *Guard) InReads(query string) error {
	word, rest := firstWord(query)
	rest = strings.ToLower(rest)
	switch {
	case g.Dialect == SQLite && g.Dialect.KindOf(query) == Writes,
		word == "begin", word == "start",
		(word == "set" || word == "reset") &&
			(strings.Contains(rest, "write") || strings.Contains(rest, "read_only")):
		return &Error{"begin it without sql.TxOptions.ReadOnly: a transaction that is read-only " +
			"has no fence", renewer.ErrConfig, nil}
	}
	return nil
}

// InTx is the error of a statement in a transaction that has the fence f, or none: one
// after which the transaction would not carry it any more.
func (g *Guard) InTx(ctx context.Context, f *Fence, query string) error {
	g.Inside(ctx, f)
	if f == nil {
		return nil
	}
	kind := g.Dialect.KindOf(query)
	word, _ := firstWord(query)
	if kind == Begins && g.Dialect == MySQL && word != "savepoint" {
		kind = Commits
	}
	switch kind {
	case Ends:
		if word == "release" {
			return nil
		}
		return &Error{"end it by Commit or Rollback: a statement that ends it would leave what " +
			"follows without the fence", renewer.ErrConfig, nil}
	case Commits:
		return &Error{"run this statement outside of the transaction: MySQL would commit " +
			"that, and what follows would have no fence", renewer.ErrConfig, nil}
	default:
		return nil
	}
}
