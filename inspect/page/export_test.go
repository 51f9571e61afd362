package page

// For tests.
var (
	Visible = visible
	Spell   = spell
	Query   = func(name string, limit bool) string { return subject{name, limit}.query() }
)

// For tests.
const (
	MostSeats = mostSeats
	MostEach  = mostEach

	LingerFor  = lingerFor
	MostPast   = mostPast
	MostFormer = mostFormer
	MostLosses = mostLosses
)

// Kept is how many locks a page keeps something of; the list counts as one.
func (p *Page) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.feeds)
}

// Remembered is of how many locks that have ended a page keeps something, and
// how many bytes.
func (p *Page) Remembered() (names, bytes int) {
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
	return len(p.history.past.names), p.history.past.bytes
}
