package wire

import (
	"bytes"
	"errors"
)

const (
	// mostReply bounds one reply, in bytes: four times the longest record.
	mostReply = 64 << 20
	// mostNested bounds how deep replies lie in each other; those of Redis, by
	// less than ten.
	mostNested = 32
	// elementSize is about what the client allocates for each element that a
	// server announces.
	elementSize = 64
)

var errReply = errors.New("redisstore: the server has begun a reply of more than 64 MiB, or of " +
	"an impossible length; is it Redis?")

// lengths looks at what a server sends before the client does. The client
// allocates whatever length is announced, and ends the process where that is
// negative or impossible. So lengths cuts replies as the client does, and
// refuses what it can't cut and what is too large.
type lengths struct {
	kind         byte // of the value whose first line is being read; 0 between values
	number       int64
	minus, digit bool  // what the line has had
	end          bool  // the \r at the line's end
	body         int64 // bytes left of the present value
	size         int64 // of the present reply, nested ones included
	depth        int
	left         [mostNested]int64 // elements to come, by depth
	strange      bool              // it is not RESP, as the client will say
}

// check reads on. After an error it must not be called again.
func (l *lengths) check(b []byte) error {
	for len(b) > 0 && !l.strange {
		if l.body > 0 {
			n := min(l.body, int64(len(b)))
			l.body -= n
			b = b[n:]
			if l.body == 0 {
				l.complete()
			}
			continue
		}
		switch l.kind {
		case 0:
			l.begin(b[0])
			b = b[1:]
		case '+', '-', ':', ',', '(':
			line, rest, whole := bytes.Cut(b, []byte{'\n'})
			l.size += int64(len(line))
			b = rest
			if whole {
				l.complete()
			}
		default:
			if !l.count(b[0]) {
				return errReply
			}
			b = b[1:]
		}
		if l.size > mostReply {
			return errReply
		}
	}
	return nil
}

// begin takes the first byte of a value.
func (l *lengths) begin(kind byte) {
	l.kind, l.number, l.minus, l.digit, l.end = kind, 0, false, false, false
	switch kind {
	case '_', '.':
		l.body = int64(len("\r\n"))
	case '#':
		l.body = int64(len("t\r\n"))
	case '+', '-', ':', ',', '(', '$', '!', '=', '*', '~', '>', '%', '|':
	default:
		l.strange = true
	}
}

// count takes a byte of the line with a value's length, and reports whether it
// may stand there.
func (l *lengths) count(c byte) bool {
	switch {
	case c >= '0' && c <= '9' && !l.end:
		l.number, l.digit = l.number*10+int64(c-'0'), true
		return l.number <= mostReply
	case c == '-' && !l.minus && !l.digit:
		l.minus = true
		return true
	case c == '\r' && l.digit && !l.end:
		l.end = true
		return true
	case c == '\n' && l.end:
		return l.counted()
	default:
		return false
	}
}

// counted takes the length of a value, and reports whether there may be such.
func (l *lengths) counted() bool {
	n := l.number
	switch l.kind {
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1 // the value that it is about goes with it
	}
	switch {
	case l.minus:
		l.complete() // null
		return n == 1 && l.kind != '|'
	case l.kind == '$' || l.kind == '!' || l.kind == '=':
		l.size += n
		l.body = n + int64(len("\r\n"))
	case n == 0:
		l.complete()
	case l.depth == mostNested:
		return false
	default:
		l.size += n * elementSize
		l.left[l.depth] = n
		l.depth++
		l.kind = 0
	}
	return true
}

// complete notes that a value is whole, and so those that it is the last of.
func (l *lengths) complete() {
	for l.kind = 0; l.depth > 0; l.depth-- {
		left := &l.left[l.depth-1]
		*left--
		if *left > 0 {
			return
		}
	}
	l.size = 0
}
