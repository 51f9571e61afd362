package page

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// visible is a string from elsewhere as people can read it: what can't be seen,
// or changes how the text around it is read, such as marks of direction, is
// escaped. odd reports whether there was any, or spaces at an end.
func visible(s string) (text string, odd bool) {
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s, strings.Trim(s, " ") != s
	}
	var b strings.Builder
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		if plain(r) && r != '\\' {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteToASCII(s[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String(), true
}

func plain(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError }

// blank reports whether r says nothing: stores drop what can't be printed.
func blank(r rune) bool { return !plain(r) || r == ' ' }

func text(s string) string {
	s, _ = visible(s)
	return s
}

// short cuts a text for people to n bytes.
func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// query is the part of an address that names a subject, whatever bytes are in
// its name.
func (s subject) query() string {
	q := "name=" + url.QueryEscape(s.name)
	if s.limit {
		q += "&limit=1"
	}
	return q
}

// subjectOf is the opposite of query. The name is a copy: a part of the address
// would keep all of it.
func subjectOf(q url.Values) subject {
	return subject{name: strings.Clone(q.Get("name")), limit: q.Get("limit") != ""}
}

// The two largest units say how long. live.js does the same.
func spell(d time.Duration) string {
	s := max(0, int64(d/time.Second))
	two := func(big int64, unit string, small int64, rest string) string {
		text := strconv.FormatInt(small, 10)
		if small < 10 {
			text = "0" + text
		}
		return strconv.FormatInt(big, 10) + " " + unit + " " + text + " " + rest
	}
	switch {
	case s < 60:
		return strconv.FormatInt(s, 10) + " s"
	case s < 3600:
		return two(s/60, "min", s%60, "s")
	case s < 86400:
		return two(s/3600, "h", s/60%60, "min")
	default:
		return two(s/86400, "d", s/3600%24, "h")
	}
}

// ages are the seconds from which on a lock is shown as older.
var ages = []int64{10, 30, 60, 180, 600, 1800, 3600, 6 * 3600, 86400}

// heat is how old: from 0 to len(ages).
func heat(d time.Duration) int {
	h := 0
	for _, from := range ages {
		if d >= time.Duration(from)*time.Second {
			h++
		}
	}
	return h
}

// thousands spells a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// more is how many more slots a limit has than the one that is named.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return " +" + thousands(n)
}

// agesText is ages for the script.
func agesText() string {
	texts := make([]string, len(ages))
	for i, from := range ages {
		texts[i] = strconv.FormatInt(from, 10)
	}
	return strings.Join(texts, " ")
}
