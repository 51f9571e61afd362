package httpmw

import "strings"

// resource is the path that a route's pattern names, up to and including the last
// wildcard called name: with every wildcard replaced by its value, escaped so that
// different values make different paths. It tells whether there is such a wildcard.
// The last one, since chi's values of a name that comes twice are both the last.
//
// Patterns are those of http.ServeMux, "GET
// example.com/a/{id}/{rest...}", and of chi, "/a/{id:[0-9]+}.{format}/*".
func resource(pattern, name string, value func(string) string) (path string, known bool) {
	begin := strings.IndexByte(pattern, '/')
	if begin < 0 {
		return "", false
	}
	pattern = pattern[begin:]
	var b strings.Builder
	for rest := pattern; ; {
		literal, w, after, ok := cut(rest)
		if !ok {
			return path, known
		}
		for i, segment := range strings.Split(literal, "/") {
			if i > 0 {
				b.WriteByte('/')
			}
			escape(&b, segment, "/")
		}
		escape(&b, value(w.name), w.ends)
		if w.name == name {
			path, known = b.String(), true
		}
		rest = after
	}
}

// wildcard is one of a pattern's.
type wildcard struct {
	name string
	// bytes that its value can't contain unescaped, lest it seem to go on behind its end
	ends string
}

// cut cuts a pattern at its first wildcard, and tells whether there is one.
func cut(pattern string) (literal string, w wildcard, after string, ok bool) {
	begin := strings.IndexByte(pattern, '{')
	if begin < 0 {
		// chi's, unlike ServeMux's literal star anywhere else
		literal, ok = strings.CutSuffix(pattern, "/*")
		return literal + "/", wildcard{name: "*"}, "", ok
	}
	end, depth := begin, 0
	for ; end < len(pattern); end++ {
		switch pattern[end] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if end == len(pattern) {
		return "", wildcard{}, "", false
	}
	after = pattern[end+1:]
	w.name, _, _ = strings.Cut(pattern[begin+1:end], ":") // of chi's {id:[0-9]+}
	var whole bool
	if w.name, whole = strings.CutSuffix(w.name, "..."); !whole {
		w.ends = "/"
		if after != "" {
			w.ends += after[:1] // chi's {id}.json
		}
	}
	return pattern[:begin], w, after, true
}

const hexDigits = "0123456789ABCDEF"

// escape writes s with percent signs, control bytes and special bytes percent-encoded.
func escape(b *strings.Builder, s, special string) {
	s = plain(s)
	for i := range len(s) {
		c := s[i]
		if c != '%' && !isControl(rune(c)) && strings.IndexByte(special, c) < 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
	}
}

// plain takes percent-encoding off until there is none left. Whether a
// value still has any depends on the router and on how the client wrote
// the path: taken off once, one and the same value could make two names.
func plain(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		out = append(out, s[i])
		// What has been decoded may complete another code, "%2" + "%35" for one.
		for n := len(out); n >= 3 && out[n-3] == '%' && isHex(out[n-2]) &&
			isHex(out[n-1]); n = len(out) {
			out = append(out[:n-3], unhex(out[n-2])<<4|unhex(out[n-1]))
		}
	}
	return string(out)
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|' ' >= 'a' && c|' ' <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | ' ' - 'a' + 10
}
