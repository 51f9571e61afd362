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
)

// Kept is how many locks a page keeps something of; the list counts as one.
func (p *Page) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.feeds)
}
