package fence

import (
	"slices"
	"strings"
)

// scanner takes a text apart as its database does unless its modes are changed.
type scanner struct {
	Dialect

	rest    string
	single  bool // the text has one statement
	escapes bool // PostgreSQL's E, or a part of such a text, stands before what follows
}

const (
	doubt = `\`   // the word for what a database may read in another way
	runs  = "/*!" // begins a comment that MySQL and MariaDB run
)

// next is the next word, in lower case; sign; or text in quotes, with the one
// before it; "" at the end.
func (s *scanner) next() string {
	for {
		t := s.rest
		for t != "" && (t[0] == ' ' || '\t' <= t[0] && t[0] <= '\r') {
			t = t[1:]
		}
		switch {
		case t == "":
			return ""
		case strings.HasPrefix(t, "\ufeff"): // a space of SQLite
			s.rest = t[len("\ufeff"):]
		case s.Dialect == MySQL && (strings.HasPrefix(t, runs) || strings.HasPrefix(t, "/*M!")):
			s.rest = strings.TrimLeft(t[3:], "!0123456789")
			return runs
		case strings.HasPrefix(t, "/*"):
			if s.rest = behindComment(t, s.Dialect == PostgreSQL); s.rest == t {
				s.rest = ""
				return doubt
			}
		case s.Dialect == MySQL && t[0] == '#', strings.HasPrefix(t, "--") &&
			(s.Dialect != MySQL || t == "--" || t[2] <= ' ' || t[2] == 0x7f):
			end := strings.IndexAny(t, "\n"+[...]string{PostgreSQL: "\r", SQLite: ""}[s.Dialect])
			if end < 0 {
				return ""
			}
			s.rest = t[end:]
		default:
			return s.word(t)
		}
	}
}

// behindComment is what follows a comment, all if it has no end. It may have
// others in it.
func behindComment(t string, others bool) string {
	depth := 0
	for i := 0; i+1 < len(t); i++ {
		switch pair := t[i : i+2]; {
		case pair == "/*" && (depth == 0 || others):
			depth++
			i++
		case pair == "*/":
			depth--
			i++
			if depth == 0 {
				return t[i+1:]
			}
		}
	}
	return t
}

// word is next of a text that begins with no space and no comment.
func (s *scanner) word(t string) string {
	c, escapes := t[0], s.escapes
	s.escapes = false
	switch {
	case c == '\'', c == '"', c == '`' && s.Dialect != PostgreSQL:
		s.escapes = escapes
		return s.quoted(t, t[:1], s.Dialect == MySQL && c != '`' || escapes)
	case c == '[' && s.Dialect == SQLite:
		return s.quoted(t, "]", false)
	case c == '$' && s.Dialect == PostgreSQL:
		tag, _, found := strings.Cut(t[1:], "$")
		if found && (tag == "" || wordIn(tag) == tag && (tag[0] < '0' || tag[0] > '9')) {
			return s.quoted(t, "$"+tag+"$", false)
		}
	case strings.IndexByte("$@:#", c) >= 0 && s.Dialect == SQLite: // $a::b(what'ever)
		s.rest = t[1:]
		for s.rest != "" && (s.rest[0] == ':' || inWord(s.rest[0])) {
			s.rest = s.rest[1:]
		}
		if strings.HasPrefix(s.rest, "(") {
			s.rest = s.rest[1+strings.IndexAny(s.rest, ") \t\n\f\r"):]
		}
		return t[:1]
	case inWord(c) && c != '$':
		word := wordIn(t)
		s.rest = t[len(word):]
		s.escapes = s.Dialect == PostgreSQL && (word == "e" || word == "E") &&
			strings.HasPrefix(s.rest, "'")
		return strings.ToLower(word)
	case c < ' ', c == 0x7f:
		c = doubt[0]
	}
	s.rest = t[1:]
	return string(rune(c))
}

// quoted is the text in quotes that t begins with. One that is twice in it, for
// itself, is taken for the end of one text and the begin of another.
func (s *scanner) quoted(t, end string, escapes bool) string {
	doubtful := false
	for i := len(end); i < len(t); i++ {
		switch {
		case t[i] == '\\' && (end == "'" || end == `"`):
			doubtful = true
			if escapes {
				i++
			}
		case strings.HasPrefix(t[i:], end):
			s.rest = t[i+len(end):]
			if doubtful {
				return doubt
			}
			return t[:i]
		}
	}
	s.rest = ""
	return doubt
}

func inWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' ||
		'a' <= c|0x20 && c|0x20 <= 'z'
}

// wordIn is the word that t begins with.
func wordIn(t string) string {
	for i := range len(t) {
		if !inWord(t[i]) {
			return t[:i]
		}
	}
	return t
}

var (
	plain    = strings.Fields("delete insert merge select update with")
	routines = strings.Fields("event function package procedure trigger")
	blocks   = strings.Fields("case if loop repeat while") // MySQL's, besides BEGIN
)

// statement is the next one's words, none at the end; all of those that can
// show that it writes nothing, else the first ones. The body of a routine is a
// part of it.
func (s *scanner) statement() (words []string) {
	var last string
	var all, routine bool
	depth := 0
	for w := s.next(); w != "" && (w != ";" || depth > 0 || len(words) == 0); w = s.next() {
		switch {
		case len(words) == cap(words) && len(words) > 0 && !all && s.single:
			return words
		case len(words) == 0 && (w == ";" || w == "("):
			continue
		case len(words) == 0:
			all = slices.Contains(reading[s.Dialect], w)
			words = append(make([]string, 0, 8), w)
		case all || len(words) < cap(words):
			words = append(words, w)
		}
		routine = routine || words[0] == "create" && slices.Contains(routines, w) &&
			(s.Dialect != SQLite || last == "create" || strings.HasPrefix(last, "temp"))
		switch {
		case !routine:
		case s.Dialect == PostgreSQL && last+w == "beginatomic",
			s.Dialect != PostgreSQL && w == "begin":
			depth++
		case w == "end" && depth > 0 && (last == ";" || last == "begin"):
			if after := *s; !slices.Contains(blocks, after.next()) {
				depth--
			}
		}
		last = w
	}
	return words
}

// isPlain reports whether a text is, at a glance, one statement that neither
// begins nor ends a transaction. Most are.
func (d Dialect) isPlain(query string) bool {
	return slices.Contains(plain, d.firstWord(query)) && !strings.Contains(query, ";")
}

// firstWord is a text's, in lower case.
func (d Dialect) firstWord(query string) (word string) {
	s := scanner{Dialect: d, rest: query}
	for word = s.next(); word == "(" || word == ";"; {
		word = s.next()
	}
	return word
}
