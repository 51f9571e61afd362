package locks

import (
	"time"
	"unicode/utf8"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// document is what ls and show print with --json.
type document struct {
	Locks []lockJSON `json:"locks"`
	// Total is how many there are, also if fewer are printed.
	Total int `json:"total"`
	// Cut reports that --limit has left some out.
	Cut bool `json:"cut"`
}

// lockJSON is a lock or a limit.
type lockJSON struct {
	Name string `json:"name"`
	// NameBytes is the name in base64, if it is no UTF-8.
	NameBytes []byte     `json:"name_bytes,omitempty"`
	Hash      string     `json:"hash"` // as logs and spans show it
	Limit     bool       `json:"limit"`
	State     string     `json:"state"` // held, free, turn, broken or foreign
	Slots     []slotJSON `json:"slots"`
	Turns     int        `json:"turns"`
	// Waiting is the sum of the next three: see store.Lock.
	Waiting   int         `json:"waiting"`
	Processes int         `json:"processes"`
	Callers   int         `json:"callers"`
	Tasks     int         `json:"tasks"`
	Places    []placeJSON `json:"places,omitempty"` // those of show
	At        time.Time   `json:"at"`               // by the store's clock
}

type holderJSON struct {
	Node      string `json:"node"`
	PID       int    `json:"pid"`
	Operation string `json:"operation"`
	Trace     string `json:"trace,omitempty"`
}

type slotJSON struct {
	holderJSON
	Token int64     `json:"token"`
	Since time.Time `json:"since"`
	Age   float64   `json:"age_seconds"`
	TTL   float64   `json:"ttl_seconds"`
	// Callers is how many wait in its process.
	Callers int         `json:"callers"`
	Broken  *brokenJSON `json:"broken,omitempty"`
	// Renewed reports whether show has seen it renewed; not there if it did not
	// look.
	Renewed *bool `json:"renewed,omitempty"`
}

type brokenJSON struct {
	By       string `json:"by"`
	Why      string `json:"why"`
	Force    bool   `json:"force"`
	Replaced bool   `json:"replaced"`
	Told     bool   `json:"told"` // its process has heard so
}

type placeJSON struct {
	holderJSON
	Version string    `json:"version,omitempty"`
	Since   time.Time `json:"since"`
	Age     float64   `json:"age_seconds"`
}

func jsonOfHolder(h store.Holder) holderJSON {
	return holderJSON{Node: h.Node, PID: h.PID, Operation: h.Operation, Trace: h.Trace}
}

func jsonOfBroken(s *store.Slot) *brokenJSON {
	b := s.Broken
	if b == nil {
		return nil
	}
	return &brokenJSON{By: b.By, Why: b.Why, Force: b.Force, Replaced: b.Replaced, Told: s.Told}
}

// jsonOf is a lock, with the hash of its name by the secret that logs are
// given.
func jsonOf(lock *store.Lock, secret []byte) lockJSON {
	j := lockJSON{
		Name: lock.Name, Hash: renewer.HashName(lock.Name, secret), Limit: lock.Limit,
		State: stateOf(lock), Slots: []slotJSON{}, Turns: lock.Turns,
		Waiting: lock.WaitingInAll(), Processes: lock.Waiting, Callers: lock.Callers(),
		Tasks: lock.Tasks, At: lock.At.UTC(),
	}
	if !utf8.ValidString(lock.Name) {
		j.NameBytes = []byte(lock.Name)
	}
	for _, s := range lock.Slots {
		j.Slots = append(j.Slots, slotJSON{
			holderJSON: jsonOfHolder(s.Holder), Token: s.Fence, Since: s.Since.UTC(),
			Age: lock.At.Sub(s.Since).Seconds(), TTL: s.TTL.Seconds(),
			Callers: s.Callers, Broken: jsonOfBroken(&s),
		})
	}
	for _, p := range lock.Places {
		j.Places = append(j.Places, placeJSON{
			holderJSON: jsonOfHolder(p.Holder), Version: p.Version, Since: p.Since.UTC(),
			Age: lock.At.Sub(p.Since).Seconds(),
		})
	}
	return j
}
