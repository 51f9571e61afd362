package page

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"time"
)

// mostFound is how many names are shown that have one hash: those of a lock and
// of a limit may be one, and a beginning may be of several.
const mostFound = 20

// foundPage is what the templates read of several names.
type foundPage struct {
	Hash string
	All  []foundText
}

type foundText struct {
	Query template.URL
	Name  string
	Odd   bool
	Limit bool
}

// getHash leads to the lock that logs show as hash: one that is held, or was
// seen in the last hour.
func (p *Page) getHash(w http.ResponseWriter, r *http.Request, hash string) {
	if !isHash(hash) {
		p.refuse(w, http.StatusBadRequest, "This is no lock_hash.",
			"It has 16 hexadecimal digits: give the first 6 of them, or more.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), firstWithin)
	defer cancel()
	read := p.once(ctx, all, clientOf(r)) // also if it has a fault: others may be known
	found := p.history.find(hash)
	if read != nil && read.list != nil {
		for s, row := range read.list.rows {
			if hashBegins(row.hash, hash) {
				found = append(found, s)
			}
		}
	}
	slices.SortFunc(found, subject.compare)
	found = slices.Compact(found)
	switch {
	case len(found) == 1:
		w.Header().Set("Location", "lock?"+found[0].query())
		w.WriteHeader(http.StatusSeeOther)
	case len(found) > 1:
		d := foundPage{Hash: hash}
		for _, s := range found[:min(len(found), mostFound)] {
			f := foundText{Limit: s.limit}
			f.Query = template.URL(s.query()) //nolint:gosec // of letters that need no escape
			f.Name, f.Odd = visible(s.name)
			d.All = append(d.All, f)
		}
		p.show(w, http.StatusOK, "found.html", d)
	case read != nil && read.fault != nil:
		p.show(w, read.fault.status, "refused.html", refusal{fault: read.fault})
	default:
		p.refuse(w, http.StatusNotFound, "No lock with this hash was seen.",
			"None is held, and none has ended in the "+p.history.looked(time.Now())+
				" that this page has looked. `lockbeat show --hash` looks once more. If logs hash "+
				"names with a secret, this page needs it, too.")
	}
}
