package tracing

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable is s in a form that is safe in an attribute, and from there in a log
// line: valid UTF-8, without control bytes, at most so many bytes. What can't be
// shown becomes U+FFFD. Exporters refuse a whole batch because of one broken byte.
func printable(s string, most int) string {
	if plain(s, most) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !unicode.IsPrint(r) {
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// plain reports whether printable would return s as it is, for the usual case of short ASCII.
func plain(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}
