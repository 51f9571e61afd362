package page

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// firstRows is how many rows are in the page itself. The script gets all by
	// the stream.
	firstRows = 150
	// firstWithin is how long a page waits for the store before it is shown
	// without its locks.
	firstWithin = 2 * time.Second
	// mostWords is how many words of a filter count.
	mostWords = 8
	// shortestHash is how many digits of a hash a filter needs, and hashField
	// is what stands before one in a line of a log.
	shortestHash = 6
	hashField    = "lock_hash="
	hexDigits    = "0123456789abcdef"

	defaultSort = "-held"
)

// column is one of the list. Its name begins with "-" where it is sorted the
// other way round.
type column struct {
	Name, Label, Class string
	order              func(a, b *row) int
}

var columns = []column{
	{"name", "Name", "name", by(func(r *row) string { return r.label })},
	{"op", "Operation", "op", by(func(r *row) string { return r.op })},
	{"holder", "Held by", "holder", func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.pid, b.pid))
	}},
	{"held", "Held for", "held", by(func(r *row) int64 { return -r.since })},
	{"left", "Lapses in", "left", by(func(r *row) int64 { return r.until })},
	{"waiting", "Waiting", "waiting", by((*row).waiting)},
}

func by[T cmp.Ordered](of func(*row) T) func(a, b *row) int {
	return func(a, b *row) int { return cmp.Compare(of(a), of(b)) }
}

// view is how a browser wants to see the list: the parameters q and sort of its
// address.
type view struct {
	words    []string
	column   column
	backward bool
}

func viewOf(q url.Values) view {
	words := strings.Fields(strings.ToLower(q.Get("q")))
	v := view{words: words[:min(len(words), mostWords)]}
	for i, word := range v.words {
		v.words[i] = strings.TrimPrefix(word, hashField)
	}
	for _, sort := range []string{q.Get("sort"), defaultSort} {
		name, backward := strings.CutPrefix(sort, "-")
		i := slices.IndexFunc(columns, func(c column) bool { return c.Name == name })
		if i >= 0 {
			v.column, v.backward = columns[i], backward
			break
		}
	}
	return v
}

// of returns the rows that are wanted, in order.
func (v view) of(l *list) []*row {
	var rows []*row
	for _, r := range l.rows {
		if r.has(v.words) {
			rows = append(rows, &r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		order := v.column.order(a, b)
		if v.backward {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.label, b.label), cmp.Compare(a.id, b.id))
	})
	return rows
}

func (r *row) has(words []string) bool {
	all := strings.ToLower(r.label + " " + r.op + " " + r.holder())
	return !slices.ContainsFunc(words, func(word string) bool {
		return !strings.Contains(all, word) && !hashBegins(r.hash, word)
	})
}

// isHash reports whether a word may be how a hash begins, by list.js too.
func isHash(word string) bool {
	return len(word) >= shortestHash && len(word) <= 16 && strings.Trim(word, hexDigits) == ""
}

// hashBegins reports whether a hash begins with a word of a filter, by list.js
// too. Shorter words would find names that the reader does not mean.
func hashBegins(hash, word string) bool {
	return len(word) >= shortestHash && strings.HasPrefix(hash, word)
}

// holder is who has it, in the words of list.js.
func (r *row) holder() string {
	if r.slots == 0 {
		return ""
	}
	return who{Node: r.node, PID: r.pid}.String() + more(r.slots-1)
}

// listPage is what the templates read of the list.
type listPage struct {
	Query   string
	Sort    string
	Fault   *fault
	Loading bool
	Cut     bool
	All     int // locks, before the filter
	Found   int
	Glance  glance
	Heads   []head
	Rows    []rowText
	Losses  []formerRow
	ShowAll string // leads to all rows
	Ages    string // for the script
}

type head struct {
	column

	Next string // the sort that a click asks for
	Aria string // the order in which the column is
}

// rowText is a row in words.
type rowText struct {
	Query                    template.URL
	Name, Op, Holder         string
	Held, Left               string
	Heat                     int
	Waiting                  string
	Limit, Odd               bool
	Broken, Foreign, Nothing bool
}

// Blank is the row that the script fills in.
func (d *listPage) Blank() rowText { return rowText{} }

// BlankLoss is the loss that the script fills in.
func (d *listPage) BlankLoss() formerRow { return formerRow{} }

// HashQuery is the part of what was looked for that may be a hash; "" for none.
func (d *listPage) HashQuery() string {
	hash := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(d.Query)), hashField)
	if isHash(hash) {
		return hash
	}
	return ""
}

// LookUp reports whether what was looked for may be a lock that is not listed.
func (d *listPage) LookUp() bool {
	return d.Query != "" && !d.Loading && d.Fault == nil && (d.Cut || d.Found == 0)
}

func (p *Page) getList(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := viewOf(q)
	data := &listPage{Query: q.Get("q"), Sort: v.sort(), Heads: v.heads(), Ages: agesText()}
	ctx, cancel := context.WithTimeout(r.Context(), firstWithin)
	defer cancel()
	switch read := p.once(ctx, all, clientOf(r)); {
	case read == nil:
		data.Loading, data.Glance = true, unknownGlance(nil)
	case read.fault != nil:
		data.Fault, data.Glance = read.fault, unknownGlance(read.fault)
	default:
		data.fill(read.list, v, q.Has("all"))
		data.ShowAll = url.Values{"q": {data.Query}, "sort": {data.Sort}, "all": {"1"}}.Encode()
	}
	p.show(w, http.StatusOK, "list.html", data)
}

func (d *listPage) fill(l *list, v view, all bool) {
	rows := v.of(l)
	d.All, d.Found, d.Cut, d.Glance = len(l.rows), len(rows), l.cut, l.glance()
	if !all {
		rows = rows[:min(len(rows), firstRows)]
	}
	now := time.Now()
	for _, r := range rows {
		d.Rows = append(d.Rows, r.text(now))
	}
	for i := range l.told.losses {
		if loss := &l.told.losses[i]; loss.has(v.words) {
			d.Losses = append(d.Losses, loss.row(now))
		}
	}
}

// text is the row in words. What is written over by another program has no
// times.
func (r *row) text(now time.Time) rowText {
	t := rowText{
		Query: template.URL(r.query()), //nolint:gosec // of letters that need no escape
		Name:  r.label, Op: r.op, Holder: r.holder(), Waiting: thousands(r.waiting()),
		Limit: r.limit, Odd: r.odd, Broken: r.broken, Foreign: r.foreign, Nothing: r.waiting() == 0,
	}
	if r.slots > 0 {
		held := now.Sub(time.UnixMilli(r.since))
		t.Held, t.Heat = spell(held), heat(held)
		t.Left = spell(time.UnixMilli(r.until).Sub(now))
	}
	return t
}

func (v view) sort() string {
	if v.backward {
		return "-" + v.column.Name
	}
	return v.column.Name
}

func (v view) heads() []head {
	heads := make([]head, len(columns))
	for i, c := range columns {
		heads[i] = head{column: c, Next: c.Name, Aria: "none"}
		switch numeric := c.Name == "held" || c.Name == "waiting"; {
		case c.Name == v.column.Name && v.backward:
			heads[i].Aria = "descending"
		case c.Name == v.column.Name:
			heads[i].Aria, heads[i].Next = "ascending", "-"+c.Name
		case numeric: // the most first
			heads[i].Next = "-" + c.Name
		}
	}
	return heads
}
