package page

// For tests.
var (
	Visible = visible
	Spell   = spell
	Query   = func(name string, limit bool) string { return subject{name, limit}.query() }
)
