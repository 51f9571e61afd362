package page

import (
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
)

// formerText is an entry as the scripts read it.
type formerText struct {
	who

	Trace string `json:"trace"`
	Fence string `json:"fence"`
	Since int64  `json:"since"`
	At    int64  `json:"at"`
	How   string `json:"how"`
}

func (e *entry) wire() formerText {
	return formerText{e.who, e.trace, strconv.FormatInt(e.fence, 10), e.since, e.at, e.how}
}

// lossText is a loss as the scripts read it, with its lock.
type lossText struct {
	formerText

	Name  string `json:"name"`
	Odd   bool   `json:"odd"`
	Limit bool   `json:"limit"`
	Hash  string `json:"hash"`
	Query string `json:"query"`
}

func (e *entry) loss() lossText {
	l := lossText{formerText: e.wire(), Limit: e.limit, Hash: e.hash, Query: e.query()}
	l.Name, l.Odd = visible(e.name)
	return l
}

// has reports whether a loss is one that a filter wants, as list.js does.
func (l *lossText) has(words []string) bool {
	all := strings.ToLower(l.Name + " " + l.Op + " " + l.String())
	return !slices.ContainsFunc(words, func(word string) bool {
		return !strings.Contains(all, word) && !hashBegins(l.Hash, word)
	})
}

// formerRow is a former holder in words.
type formerRow struct {
	Query            template.URL
	Name, Holder, Op string
	Fence, Trace     string
	Held, Ago, At    string
	How              string
	Odd, Limit       bool
}

func (f *formerText) row(now time.Time) formerRow {
	at := time.UnixMilli(f.At)
	r := formerRow{
		Holder: f.String(), Op: f.Op, Fence: f.Fence, Trace: f.Trace, How: f.How,
		Held: spell(at.Sub(time.UnixMilli(f.Since))), Ago: spell(now.Sub(at)) + " ago",
		At: at.UTC().Format(time.RFC3339),
	}
	if r.How == "" {
		r.How = "ended"
	}
	return r
}

func (l *lossText) row(now time.Time) formerRow {
	r := l.formerText.row(now)
	r.Query = template.URL(l.Query) //nolint:gosec // of letters that need no escape
	r.Name, r.Odd, r.Limit = l.Name, l.Odd, l.Limit
	return r
}
