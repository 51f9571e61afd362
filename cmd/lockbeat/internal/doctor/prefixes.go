package doctor

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	// scanStep is about how many keys a server looks at for one command: some
	// 0.1 ms.
	scanStep = 250
	// scanning is for how long keys are looked at: a server may have very many.
	scanning = 3 * time.Second
	// mostPrefixes bounds how many are shown.
	mostPrefixes = 8
)

// ofLocks is a key of ours: its prefix, which has none of these bytes and ends
// in a colon, the name of a lock or the tag of a mark, and what is behind the
// braces: nothing for a lease.
var ofLocks = regexp.MustCompile(`^([^][{}*?\\[:cntrl:] ]*:)\{([^{}]+)\}(.*)$`)

// prefixes are those under which keys were seen.
type prefixes struct {
	cluster bool
	// locked are those with a mark, which each grant leaves for a day by
	// default. Its tag is a percent sign, as no other key's; on a cluster a
	// number.
	locked map[string]bool
	held   map[string]bool // those with a lease
}

// otherPrefixes looks for locks under other prefixes than ours: two programs
// that should exclude each other, and differ in the prefix, don't.
func otherPrefixes(ctx context.Context, all []server, ours string) finding {
	const check = "other prefixes"
	p := prefixes{
		cluster: all[0].addr != "", locked: make(map[string]bool), held: make(map[string]bool),
	}
	whole := true
	for until, i := time.Now().Add(scanning), 0; i < len(all); i++ {
		w, err := p.scan(ctx, all[i].client, until)
		if err != nil {
			return missed(check, "+scan", err)
		}
		whole = whole && w
	}
	delete(p.locked, ours)
	f := finding{Check: check, Found: "none has locks"}
	if len(p.locked) > 0 {
		f.Found = "locks are taken under " + p.list() + " as well; programs that are to exclude " +
			"each other need one prefix (LOCKBEAT_PREFIX)"
	}
	if !whole {
		f.Found += fmt.Sprintf("; not all keys were looked at, but for %v", scanning)
	}
	return f
}

// scan looks at the keys of a server; it reports whether it has seen all of
// them. SCAN needs no right to the keys themselves.
func (p prefixes) scan(
	ctx context.Context, client rueidis.Client, until time.Time,
) (whole bool, err error) {
	for cursor := uint64(0); ; {
		scan := client.B().Scan().Cursor(cursor).Match("*:{*}*").Count(scanStep).Build()
		entry, err := client.Do(ctx, scan).AsScanEntry()
		if err != nil {
			return false, err
		}
		for _, key := range entry.Elements {
			p.note(key)
		}
		if cursor = entry.Cursor; cursor == 0 {
			return true, nil
		}
		if time.Now().After(until) {
			return false, nil
		}
	}
}

func (p prefixes) note(key string) {
	parts := ofLocks.FindStringSubmatch(key)
	if parts == nil {
		return
	}
	switch prefix, tag, rest := parts[1], parts[2], parts[3]; rest {
	case ":mark":
		if tag == "%" || p.cluster && strings.Trim(tag, "0123456789") == "" {
			p.locked[prefix] = true
		}
	case "", ":slots":
		p.held[prefix] = true
	}
}

// list is which prefixes there are, those first that have locks now.
func (p prefixes) list() string {
	var held, free []string
	for _, prefix := range slices.Sorted(maps.Keys(p.locked)) {
		if p.held[prefix] {
			held = append(held, prefix+" (some are held now)")
		} else {
			free = append(free, prefix+" (none is held now)")
		}
	}
	all := slices.Concat(held, free)
	if more := len(all) - mostPrefixes; more > 0 {
		all = append(all[:mostPrefixes], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}
